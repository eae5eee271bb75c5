// LeasedSegment: a segment of a daemon's memory, as a Source that this process's device can import.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto segment, LeasedSegment::Take(number, bytes, std::move(file), release));
//   device.Import(segment, offset, bytes, "wq");
//
// What was taken is checked to be sealed, read-only and of the size that was said, so that its bytes
// are what they are for ever: CheckUnchanged asks nobody. It is the lease, too: when the last user goes,
// `release` is told how often it was granted. It outlives the daemon that gave it; where the next one has
// the same memory it is leased of that one from then on (SwapGrants), under the number that it has there.
// Ownership: shared. Threads: any reads it; grants and tensors are for whose turn it is to ask. Errors: InvalidArgument for what is no sealed segment of that size.
// Cost: two calls of the system to take; nothing is mapped before it is imported.
#ifndef NPUBANK_BANK_SERVICE_CLIENT_LEASED_SEGMENT_H_
#define NPUBANK_BANK_SERVICE_CLIENT_LEASED_SEGMENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "npubank/bank/upstream.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/digest.h"
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
  // What it was leased for.
  void AddTensor(const Upstream::Wanted& tensor) { tensors_.emplace(tensor.digest, tensor); }
  const std::map<Digest, Upstream::Wanted>& tensors() const { return tensors_; }

  uint64_t number() const { return number_; }
  // Equal for two that are the same memory, whoever leased them: device and inode.
  using Memory = std::pair<uint64_t, uint64_t>;
  const Memory& memory() const { return memory_; }
  // Each gives back what the other was granted.
  void SwapGrants(LeasedSegment& other);

  // Its identity is a number of this process; what it is asked for is whether a device may have its pages.
  bool persistent() const override { return true; }
  bool mappable() const override { return true; }
  bool in_memory() const override { return true; }
  int descriptor() const override { return file_.get(); }
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override;
  // FailedPrecondition: it is imported, or read.
  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t offset, uint64_t length) const override;
  void Release(uint64_t, uint64_t) const override {}

 private:
  LeasedSegment(uint64_t number, uint64_t bytes, FileDescriptor file, Memory memory,
                ReleaseGrants release);

  const FileDescriptor file_;
  const Memory memory_;
  uint64_t number_;
  ReleaseGrants release_;
  uint32_t grants_ = 1;
  std::map<Digest, Upstream::Wanted> tensors_;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_CLIENT_LEASED_SEGMENT_H_
