// ScriptedSource: bytes in memory whose reads a test can count, hold up and fail.
//
//   auto source = ScriptedSource::Make("weights", bytes);
//   source->FailRead(3);                     // the third read from now, once
//   source->on_read = [&] { gate.Wait(); };  // set before anybody reads
#ifndef NPUBANK_TESTS_SUPPORT_WEIGHTS_SCRIPTED_SOURCE_H_
#define NPUBANK_TESTS_SUPPORT_WEIGHTS_SCRIPTED_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

class ScriptedSource final : public Source {
 public:
  // Two sources of one name have one identity, as two openings of one file have.
  static std::shared_ptr<ScriptedSource> Make(const std::string& name,
                                              std::vector<std::byte> bytes);

  bool persistent() const override { return false; }
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override;
  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t, uint64_t) const override;
  void Release(uint64_t, uint64_t) const override {}

  // The nth read from now fails (1 is the next), once or forever; 0: none does.
  void FailRead(int64_t nth, bool forever = false);
  uint64_t reads() const { return reads_; }

  std::function<void()> on_read;  // before each read, on the reading thread

 private:
  ScriptedSource(const std::string& name, Digest identity, std::vector<std::byte> bytes);

  std::vector<std::byte> bytes_;
  mutable std::atomic<uint64_t> reads_{0};
  mutable std::atomic<int64_t> until_failure_{0};
  std::atomic<bool> for_ever_{false};
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_WEIGHTS_SCRIPTED_SOURCE_H_
