// Retention: who still holds source bytes, exact at every moment.
//
// Every Constant in a live recipe holds a SourceHold on its bytes. The count falls to zero when the
// last recipe over a source has been detached or dropped; a loader that has finished must show 0.
//
//   EXPECT_EQ(LiveSourceBytes(), 0) << DescribeHeldSources();
//
// Cost: two atomic additions per Constant made or dropped. Threads: any.
// A range held by two Constants counts twice: the figure is what recipes hold, not what is mapped.
#ifndef NPUBANK_LAZY_TENSOR_SOURCES_RETENTION_H_
#define NPUBANK_LAZY_TENSOR_SOURCES_RETENTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace npubank {

class Source;

struct HeldSource {
  std::string name;      // of the Source
  uint64_t bytes = 0;    // held by Constants over it
  uint64_t holders = 0;  // how many Constants
};

// Bytes held by all live Constants of this process.
uint64_t LiveSourceBytes();
// The sources with at least one holder, by name.
std::vector<HeldSource> HeldSources();
// HeldSources() as text, a line each; empty when there are none.
std::string DescribeHeldSources();

// RAII: one Constant's claim on `bytes` of `source`. Keeps the source alive.
class SourceHold {
 public:
  SourceHold(std::shared_ptr<Source> source, uint64_t bytes);
  ~SourceHold();
  SourceHold(const SourceHold&) = delete;
  SourceHold& operator=(const SourceHold&) = delete;
  const Source& source() const { return *source_; }
  const std::shared_ptr<Source>& shared_source() const { return source_; }

 private:
  std::shared_ptr<Source> source_;
  uint64_t bytes_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_SOURCES_RETENTION_H_
