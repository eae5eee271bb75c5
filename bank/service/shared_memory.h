// SharedMemory: a DeviceMemory of sealed segments that any number of processes may map.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto memory, SharedMemory::Create({.capacity = 8ull << 30}));
//   auto bank = Bank::Create(memory, {});
//   ... Lease lease = one of a load ...
//   NPUBANK_ASSIGN_OR_RETURN(auto segment, memory->SealedSegment(*lease.file()));
//   NPUBANK_ASSIGN_OR_RETURN(FileDescriptor theirs, segment->OpenForReading());
//   // whoever has `theirs` finds the tensor at lease.file()->offset, and cannot change a byte of it
//
// What npubankd's bank evaluates into. A tensor of kOwnSegmentBytes and more is a segment of its
// own, sealed as soon as it is written; smaller ones share segments of about kBatchBytes, each at a
// multiple of 4096 bytes. A small tensor is produced beside its segment and then copied into it, and
// the segment is sealed when SealedSegment first asks for it: nothing is handed out before it is
// complete and can never change, and nobody waits for another's evaluation.
//
// An allocation's address() is a number of its own that lies where no process can map anything: the
// bytes have no address here, and get one where a client imports them. file() is there once it is
// written. What is written cannot be written again (FailedPrecondition); a Write that failed can.
// Memory goes back to the system when an allocation goes, and of a small tensor in a sealed segment
// when the last of its segment has gone; a client that still maps it keeps it for itself.
//
// Ownership: allocations may outlive it. Threads: any. Errors: ResourceExhausted beyond the
// capacity, or when the system has no memory or no descriptor to give; what `produce` returns.
// Cost: beside a tensor that is being written nothing; a small one's bytes a second time.
#ifndef NPUBANK_BANK_SERVICE_SHARED_MEMORY_H_
#define NPUBANK_BANK_SERVICE_SHARED_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/service/huge_pages.h"
#include "npubank/bank/service/segment.h"

namespace npubank::service {

class SharedMemory final : public DeviceMemory {
 public:
  static constexpr uint64_t kOwnSegmentBytes = 2 << 20;
  static constexpr uint64_t kBatchBytes = 8 << 20;
  static constexpr uint64_t kUncheckedBytes = 4 << 20;

  struct Options {
    // Bytes that segments may take, dead room in shared ones included.
    uint64_t capacity = uint64_t{1} << 40;
    // Join the pages of sealed segments (huge_pages.h).
    bool huge_pages = true;
    // How many bytes more the system gives before it kills (memory_limit.h); asked from any thread, for
    // each kUncheckedBytes that are allocated. None: nobody knows.
    std::function<uint64_t()> room = nullptr;
    // A segment goes back to the system; told from any thread, which holds no lock.
    std::function<void(const Segment& segment)> gone = nullptr;
  };
  // A tensor in a segment.
  struct Range {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::string name;
  };

  // ResourceExhausted when there is no thread for huge pages.
  static absl::StatusOr<std::shared_ptr<SharedMemory>> Create(Options options);
  ~SharedMemory() override;

  std::string name() const override { return "shared memory"; }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view name) override;
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override;
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override;
  DeviceMemoryTraits traits() const override { return {.argument_alignment = Segment::kPage}; }
  DeviceUsage Usage() const override;
  // The sum of what the system counts for each segment (st_blocks).
  absl::StatusOr<uint64_t> DriverBytes() const override;

  // Where the bytes lie, for other processes; sealed now when it was not yet. `range` is what file()
  // of a live allocation, or of a lease of it, says. InvalidArgument for any other.
  absl::StatusOr<std::shared_ptr<const Segment>> SealedSegment(const FileRange& range) const;
  // Takes over what an earlier process sealed (Segment::Adopt): an allocation for each range, all of which
  // begin on a page, lie in the segment and do not overlap. The segment counts as a whole until the last of
  // them goes. InvalidArgument for other ranges, and for none; ResourceExhausted beyond the capacity.
  absl::StatusOr<std::vector<std::unique_ptr<DeviceAllocation>>> Adopt(
      std::shared_ptr<Segment> segment, absl::Span<const Range> ranges);
  // All segments that hold memory now.
  std::vector<std::shared_ptr<const Segment>> Segments() const;
  // How many tensors one of them has; 0 for any other.
  uint64_t TensorsIn(const Segment& segment) const;
  HugePages::Counts huge_pages() const;
  // Returns when all pages that can be joined are.
  void FinishHugePages();

 private:
  struct State;
  class Allocation;
  explicit SharedMemory(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_SHARED_MEMORY_H_
