// FakeSource: a source whose identity the test chooses and whose reads can be made to fail.
//
//   auto source = std::make_shared<FakeSource>(bytes, Digest{1, 2});
//   source->FailFrom(3);  // the third read and all after it
#ifndef NPUBANK_TESTS_SUPPORT_WEIGHTS_FAKE_SOURCE_H_
#define NPUBANK_TESTS_SUPPORT_WEIGHTS_FAKE_SOURCE_H_

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/sources/source.h"

namespace npubank::testing {

class FakeSource : public Source {
 public:
  FakeSource(std::vector<std::byte> bytes, const Digest& identity)
      : Source("fake", identity, bytes.size()), bytes_(std::move(bytes)) {}

  // Reads count from 1.
  void FailFrom(int read) { fail_from_ = read; }
  int reads() const { return reads_; }
  int releases() const { return releases_; }

  bool persistent() const override { return true; }
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override {
    const int read = ++reads_;
    if (fail_from_ > 0 && read >= fail_from_) return absl::DataLossError("fake: as asked");
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return absl::OkStatus();
  }
  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t, uint64_t) const override {
    return absl::FailedPreconditionError("fake: not mapped");
  }
  void Release(uint64_t, uint64_t) const override { ++releases_; }

 private:
  const std::vector<std::byte> bytes_;
  std::atomic<int> fail_from_{0};
  mutable std::atomic<int> reads_{0};
  mutable std::atomic<int> releases_{0};
};

}  // namespace npubank::testing

#endif  // NPUBANK_TESTS_SUPPORT_WEIGHTS_FAKE_SOURCE_H_
