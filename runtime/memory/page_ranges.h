// PageRanges: which pages of a file are wanted, joined where they touch. Books only: it opens
// nothing and asks no driver.
//
//   PageRanges wanted;
//   wanted.Add(100, 50);                        // [0, 4096)
//   wanted.Add(4096, 1);                        // touches it: now [0, 8192)
//   wanted.Find(4000, 200);                     // [0, 8192)
//
// Begins and ends are multiples of 4096: an end may lie beyond the file's. Threads: one at a time.
// Cost: logarithmic in the number of ranges.
#ifndef NPUBANK_RUNTIME_MEMORY_PAGE_RANGES_H_
#define NPUBANK_RUNTIME_MEMORY_PAGE_RANGES_H_

#include <cstdint>
#include <map>
#include <optional>

#include "npubank/lazy_tensor/base/align.h"

namespace npubank {

struct PageRange {
  static constexpr uint64_t kPageBytes = 4096;  // what the driver widens imports to

  uint64_t begin = 0;
  uint64_t end = 0;

  // The pages that [offset, offset + bytes) lies in; neither end may overflow when it is rounded.
  static PageRange Around(uint64_t offset, uint64_t bytes) {
    return {offset / kPageBytes * kPageBytes,
            AlignUp(offset + bytes, kPageBytes)};
  }
  bool Contains(const PageRange& other) const { return begin <= other.begin && other.end <= end; }
  bool operator==(const PageRange&) const = default;
};

class PageRanges {
 public:
  // The pages of [offset, offset + bytes), where bytes is not 0.
  void Add(uint64_t offset, uint64_t bytes);
  // The joined range that all pages of [offset, offset + bytes) are in.
  std::optional<PageRange> Find(uint64_t offset, uint64_t bytes) const;
  bool empty() const { return ends_.empty(); }

 private:
  std::map<uint64_t, uint64_t> ends_;  // by begin; they neither overlap nor touch
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_PAGE_RANGES_H_
