// LeasedSegment: a segment of a daemon's memory, as a Source that this process's device can import.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto segment, LeasedSegment::Take(number, bytes, std::move(file), release));
//   device.Import(segment, offset, bytes, "wq");
//
// What was taken is checked to be sealed, read-only and of the size that was said, so that its bytes
// are what they are for ever: CheckUnchanged asks nobody. It is the lease, too: when the last user goes,
// `release` is told how often it was granted.
// Ownership: shared. Threads: any. Errors: InvalidArgument for what is no sealed segment of that size.
// Cost: two calls of the system to take; nothing is mapped before it is imported.
#ifndef NPUBANK_BANK_SERVICE_CLIENT_LEASED_SEGMENT_H_
#define NPUBANK_BANK_SERVICE_CLIENT_LEASED_SEGMENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank::service {

class LeasedSegment final : public Source {
 public:
  // The daemon's number of it, and how many grants go back.
  using ReleaseGrants = std::function<void(uint64_t number, uint32_t grants)>;

  static absl::StatusOr<std::shared_ptr<LeasedSegment>> Take(uint64_t number, uint64_t bytes,
                                                             FileDescriptor file,
                                                             ReleaseGrants release);
  ~LeasedSegment() override;

  // It was granted once more.
  void AddGrant() { ++grants_; }

  // Its identity is a number of this process; what it is asked for is whether a device may have its pages.
  bool persistent() const override { return true; }
  bool mappable() const override { return true; }
  int descriptor() const override { return file_.get(); }
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override;
  // FailedPrecondition: it is imported, or read.
  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t offset, uint64_t length) const override;
  void Release(uint64_t, uint64_t) const override {}

 private:
  LeasedSegment(uint64_t number, uint64_t bytes, FileDescriptor file, ReleaseGrants release);

  const uint64_t number_;
  const FileDescriptor file_;
  const ReleaseGrants release_;
  std::atomic<uint32_t> grants_ = 1;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_CLIENT_LEASED_SEGMENT_H_
