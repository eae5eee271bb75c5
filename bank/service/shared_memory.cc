#include "npubank/bank/service/shared_memory.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <new>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/service/segment_batch.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

using BatchPtr = std::shared_ptr<SegmentBatch>;

// Each allocation's address is its own, and none that a processor takes: the bits above those of an
// address are neither all clear nor all set.
void* NextAddress(uint64_t bytes) {
  static std::atomic<uint64_t> next = uint64_t{1} << 60;
  return reinterpret_cast<void*>(next.fetch_add(bytes));
}

struct Place {
  BatchPtr batch;
  uint64_t offset = 0;
};

absl::Status CheckRanges(const Segment& segment, absl::Span<const SharedMemory::Range> ranges) {
  std::map<uint64_t, uint64_t> ends;  // by where a range begins
  uint64_t before = 0;
  for (const SharedMemory::Range& range : ranges) {
    const bool fits = range.bytes > 0 && range.offset % Segment::kPage == 0 &&
                      RangeFits(range.offset, range.bytes, segment.sealed_bytes());
    if (fits && ends.emplace(range.offset, range.offset + range.bytes).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", range.name, "' at [", range.offset, ", +", range.bytes, ") of '",
                     segment.name(), "', which has ", segment.sealed_bytes(), " bytes"));
  }
  for (const auto& [begin, end] : ends) {
    if (begin < std::exchange(before, end)) {
      return absl::InvalidArgumentError(absl::StrCat("tensors of '", segment.name(), "' overlap"));
    }
  }
  if (!ends.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", segment.name(), "' holds no tensor"));
}

}  // namespace

// Shared by the memory and its allocations, so that the count is right whichever goes first.
struct SharedMemory::State {
  explicit State(Options o) : options(o) {}

  absl::Status Promise(uint64_t reserved, absl::string_view name);
  absl::Status Adopt(const BatchPtr& batch, absl::Span<const Range> ranges, uint64_t held);
  uint64_t RoomToAskFor(uint64_t reserved) const;
  void ReturnPromise(uint64_t reserved);
  absl::StatusOr<Place> Take(uint64_t bytes, absl::string_view name);
  BatchPtr OpenBatch() const;
  BatchPtr BatchOf(int descriptor) const;  // or null
  void Install(BatchPtr batch, uint64_t reserved, bool open);
  void Drop(Place place, uint64_t bytes);
  absl::Status Seal(SegmentBatch& batch);
  std::vector<std::shared_ptr<const Segment>> Segments() const;

  const Options options;
  std::unique_ptr<HugePages> huge_pages;  // null: pages stay as they are
  mutable Mutex mutex;
  DeviceUsage usage ABSL_GUARDED_BY(mutex);
  // Of `held_bytes` what was allocated and has no place in a segment yet.
  uint64_t promised ABSL_GUARDED_BY(mutex) = 0;
  uint64_t unchecked ABSL_GUARDED_BY(mutex) = 0;  // allocated since `room` was asked
  absl::flat_hash_map<int, BatchPtr> batches ABSL_GUARDED_BY(mutex);  // by descriptor
  BatchPtr open ABSL_GUARDED_BY(mutex);  // where the next small tensor goes
};

class SharedMemory::Allocation final : public DeviceAllocation {
 public:
  Allocation(std::shared_ptr<State> state, uint64_t bytes, absl::string_view name)
      : state_(std::move(state)), bytes_(bytes), name_(name), address_(NextAddress(reserved())) {}
  // Of a place that holds its bytes already, and is counted.
  Allocation(std::shared_ptr<State> state, const Range& range, Place place)
      : Allocation(std::move(state), range.bytes, range.name) {
    Settle(std::move(place));
  }
  ~Allocation() override {
    if (place_.has_value()) state_->Drop(*std::exchange(place_, std::nullopt), bytes_);
    state_->ReturnPromise(reserved());
  }

  void* address() const override { return address_; }
  uint64_t bytes() const override { return bytes_; }
  uint64_t reserved_bytes() const override { return reserved(); }
  absl::string_view strategy() const override { return "shared"; }
  absl::Span<std::byte> host_bytes() override { return {}; }
  const FileRange* file() const override { return place_.has_value() ? &range_ : nullptr; }

  absl::Status Write(ProduceBytes produce) {
    if (place_.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", name_, "' is in shared memory and is not changed any more"));
    }
    return bytes_ < kOwnSegmentBytes ? WriteSmall(produce) : WriteLarge(produce);
  }

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const {
    if (offset > bytes_ || out.size() > bytes_ - offset) {
      return absl::OutOfRangeError(absl::StrCat("reading [", offset, ", +", out.size(), ") of '",
                                                name_, "', which has ", bytes_, " bytes"));
    }
    if (!place_.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat("'", name_, "' was not written yet"));
    }
    return place_->batch->segment()->Read(place_->offset + offset, out);
  }

 private:
  uint64_t reserved() const { return AlignUp(bytes_, Segment::kPage); }

  // All of it is there before it takes a place: who seals the segment does not wait for `produce`.
  absl::Status WriteSmall(ProduceBytes produce) {
    const std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[bytes_]);
    if (buffer == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory to write '", name_, "' from: ", bytes_, " bytes"));
    }
    const absl::Span<std::byte> staging(buffer.get(), bytes_);
    NPUBANK_RETURN_IF_ERROR(produce(0, staging));
    NPUBANK_ASSIGN_OR_RETURN(Place place, state_->Take(bytes_, name_));
    return Keep(std::move(place),
                [&](const Place& taken) { return taken.batch->Write(taken.offset, staging); });
  }

  // Straight into its segment, which is its own.
  absl::Status WriteLarge(ProduceBytes produce) {
    NPUBANK_ASSIGN_OR_RETURN(Place place, state_->Take(bytes_, name_));
    const absl::Status written = Keep(std::move(place), [&](const Place& taken) -> absl::Status {
      NPUBANK_ASSIGN_OR_RETURN(
          const AlignedMapping mapping,
          taken.batch->segment()->MapToWrite(reserved(), state_->huge_pages != nullptr));
      return produce(0, mapping.bytes().first(bytes_));
    });
    NPUBANK_RETURN_IF_ERROR(written);
    const absl::Status sealed = state_->Seal(*place_->batch);
    if (!sealed.ok()) state_->Drop(*std::exchange(place_, std::nullopt), bytes_);
    return sealed;
  }

  // The place is this allocation's when `write` has succeeded, and free again when it has not.
  template <typename WriteInto>
  absl::Status Keep(Place place, WriteInto write) {
    const absl::Status status = write(place);
    const BatchPtr batch = place.batch;
    if (status.ok()) {
      Settle(std::move(place));
    } else {
      state_->Drop(std::move(place), bytes_);
    }
    batch->Written();
    return status;
  }

  void Settle(Place place) {
    range_.descriptor = place.batch->segment()->descriptor();
    range_.offset = place.offset;
    range_.bytes = bytes_;
    range_.page_aligned = true;
    place_ = std::move(place);
  }

  const std::shared_ptr<State> state_;
  const uint64_t bytes_;
  const std::string name_;
  void* const address_;
  std::optional<Place> place_;
  FileRange range_;
};

absl::Status SharedMemory::State::Promise(uint64_t reserved, absl::string_view name) {
  const uint64_t must_have_room = RoomToAskFor(reserved);
  const uint64_t room = must_have_room > 0 ? options.room() : ~uint64_t{0};
  MutexLock lock(mutex);
  const auto refused = [&](absl::string_view why) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no shared memory for '", name, "': ", reserved, " bytes wanted, ", why));
  };
  if (reserved > options.capacity || usage.held_bytes > options.capacity - reserved) {
    return refused(absl::StrCat(usage.held_bytes, " of ", options.capacity, " in use"));
  }
  if (must_have_room > room) {
    return refused(absl::StrCat(room, " left before the limit of memory of this process's group"));
  }
  unchecked = must_have_room > 0 ? 0 : unchecked + reserved;
  promised += reserved;
  usage.held_bytes += reserved;
  usage.live_bytes += reserved;
  ++usage.live_allocations;
  usage.peak_bytes = std::max(usage.peak_bytes, usage.live_bytes);
  usage.peak_held_bytes = std::max(usage.peak_held_bytes, usage.held_bytes);
  return absl::OkStatus();
}

// What there must be room for now, of what was promised and not written: 0, it need not be asked yet.
uint64_t SharedMemory::State::RoomToAskFor(uint64_t reserved) const {
  MutexLock lock(mutex);
  const uint64_t all = promised + std::min(reserved, ~uint64_t{0} - promised);
  const bool ask =
      options.room && unchecked + std::min(reserved, kUncheckedBytes) >= kUncheckedBytes;
  return ask ? all : 0;
}

void SharedMemory::State::ReturnPromise(uint64_t reserved) {
  MutexLock lock(mutex);
  promised -= reserved;
  usage.held_bytes -= reserved;
  usage.live_bytes -= reserved;
  --usage.live_allocations;
}

BatchPtr SharedMemory::State::OpenBatch() const {
  MutexLock lock(mutex);
  return open;
}

BatchPtr SharedMemory::State::BatchOf(int descriptor) const {
  MutexLock lock(mutex);
  const auto found = batches.find(descriptor);
  return found == batches.end() ? nullptr : found->second;
}

void SharedMemory::State::Install(BatchPtr batch, uint64_t reserved, bool is_open) {
  MutexLock lock(mutex);
  promised -= reserved;
  if (is_open) open = batch;
  batches[batch->segment()->descriptor()] = std::move(batch);
}

absl::StatusOr<Place> SharedMemory::State::Take(uint64_t bytes, absl::string_view name) {
  const uint64_t reserved = AlignUp(bytes, Segment::kPage);
  const bool small = bytes < kOwnSegmentBytes;
  if (BatchPtr batch = small ? OpenBatch() : nullptr; batch != nullptr) {
    if (const std::optional<uint64_t> offset = batch->Take(bytes)) {
      Install(batch, reserved, /*is_open=*/false);
      return Place{.batch = std::move(batch), .offset = *offset};
    }
  }
  NPUBANK_ASSIGN_OR_RETURN(BatchPtr batch,
                           SegmentBatch::Create(small ? "small tensors" : name, kBatchBytes));
  const uint64_t offset = *batch->Take(bytes);
  Install(batch, reserved, /*is_open=*/small);
  return Place{.batch = std::move(batch), .offset = offset};
}

// The bytes are promised again: to the allocation that had the place.
void SharedMemory::State::Drop(Place place, uint64_t bytes) {
  const SegmentBatch::Dropped dropped = place.batch->Drop(place.offset, bytes);
  if (dropped.last) {
    BatchPtr was_open;  // dropped after the lock
    if (huge_pages != nullptr) huge_pages->Forget(*place.batch->segment());
    MutexLock lock(mutex);
    batches.erase(place.batch->segment()->descriptor());
    if (open == place.batch) was_open = std::exchange(open, nullptr);
  }
  if (dropped.last && options.gone) options.gone(*place.batch->segment());
  place.batch.reset();
  MutexLock lock(mutex);
  usage.held_bytes += AlignUp(bytes, Segment::kPage);
  usage.held_bytes -= dropped.bytes;
  promised += AlignUp(bytes, Segment::kPage);
}

absl::Status SharedMemory::State::Seal(SegmentBatch& batch) {
  NPUBANK_ASSIGN_OR_RETURN(const bool now, batch.Seal());
  if (now && huge_pages != nullptr) huge_pages->Add(batch.segment());
  return absl::OkStatus();
}

absl::Status SharedMemory::State::Adopt(const BatchPtr& batch, absl::Span<const Range> ranges,
                                        uint64_t held) {
  MutexLock lock(mutex);
  if (held > options.capacity || usage.held_bytes > options.capacity - held) {
    return absl::ResourceExhaustedError(absl::StrCat("'", batch->segment()->name(), "' of ", held,
                                                     " bytes: ", usage.held_bytes, " of ",
                                                     options.capacity, " are in use"));
  }
  usage.held_bytes += held;
  for (const Range& range : ranges) usage.live_bytes += AlignUp(range.bytes, Segment::kPage);
  usage.live_allocations += ranges.size();
  usage.peak_bytes = std::max(usage.peak_bytes, usage.live_bytes);
  usage.peak_held_bytes = std::max(usage.peak_held_bytes, usage.held_bytes);
  batches[batch->segment()->descriptor()] = batch;
  return absl::OkStatus();
}

std::vector<std::shared_ptr<const Segment>> SharedMemory::State::Segments() const {
  std::vector<std::shared_ptr<const Segment>> segments;
  MutexLock lock(mutex);
  for (const auto& [descriptor, batch] : batches) segments.push_back(batch->segment());
  return segments;
}

SharedMemory::SharedMemory(std::shared_ptr<State> state) : state_(std::move(state)) {}
SharedMemory::~SharedMemory() = default;

absl::StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Create(Options options) {
  auto state = std::make_shared<State>(options);
  if (options.huge_pages) {
    NPUBANK_ASSIGN_OR_RETURN(state->huge_pages, HugePages::Start());
  }
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(state)));
}

absl::StatusOr<std::unique_ptr<DeviceAllocation>> SharedMemory::Allocate(uint64_t bytes,
                                                                         absl::string_view name) {
  if (bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat("allocating 0 bytes for '", name, "'"));
  }
  NPUBANK_RETURN_IF_ERROR(state_->Promise(AlignUp(bytes, Segment::kPage), name));
  return std::make_unique<Allocation>(state_, bytes, name);
}

absl::Status SharedMemory::Write(DeviceAllocation& memory, ProduceBytes produce) {
  return static_cast<Allocation&>(memory).Write(produce);
}

absl::Status SharedMemory::Read(DeviceAllocation& memory, uint64_t offset,
                                absl::Span<std::byte> out) {
  return static_cast<Allocation&>(memory).Read(offset, out);
}

DeviceUsage SharedMemory::Usage() const {
  MutexLock lock(state_->mutex);
  DeviceUsage usage = state_->usage;
  usage.asked_bytes = usage.held_bytes - state_->promised;
  return usage;
}

absl::StatusOr<uint64_t> SharedMemory::DriverBytes() const {
  uint64_t sum = 0;
  for (const auto& segment : state_->Segments()) {
    NPUBANK_ASSIGN_OR_RETURN(const uint64_t bytes, segment->MemoryBytes());
    sum += bytes;
  }
  return sum;
}

absl::StatusOr<std::shared_ptr<const Segment>> SharedMemory::SealedSegment(
    const FileRange& range) const {
  const BatchPtr batch = state_->BatchOf(range.descriptor);
  if (batch == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("descriptor ", range.descriptor, " is no segment of this shared memory"));
  }
  NPUBANK_RETURN_IF_ERROR(state_->Seal(*batch));
  return batch->segment();
}

absl::StatusOr<std::vector<std::unique_ptr<DeviceAllocation>>> SharedMemory::Adopt(
    std::shared_ptr<Segment> segment, absl::Span<const Range> ranges) {
  NPUBANK_RETURN_IF_ERROR(CheckRanges(*segment, ranges));
  // Whatever lies between the tensors counts, but what was given back before it was sealed.
  NPUBANK_ASSIGN_OR_RETURN(const uint64_t memory, segment->MemoryBytes());
  const uint64_t held = std::min(memory, segment->sealed_bytes());
  const BatchPtr batch = SegmentBatch::Adopt(std::move(segment), ranges.size(), held);
  NPUBANK_RETURN_IF_ERROR(state_->Adopt(batch, ranges, held));
  if (state_->huge_pages != nullptr) state_->huge_pages->Add(batch->segment());
  std::vector<std::unique_ptr<DeviceAllocation>> allocations;
  for (const Range& range : ranges) {
    allocations.push_back(
        std::make_unique<Allocation>(state_, range, Place{.batch = batch, .offset = range.offset}));
  }
  return allocations;
}

std::vector<std::shared_ptr<const Segment>> SharedMemory::Segments() const {
  return state_->Segments();
}

uint64_t SharedMemory::TensorsIn(const Segment& segment) const {
  const BatchPtr batch = state_->BatchOf(segment.descriptor());
  return batch == nullptr ? 0 : batch->tensors();
}

HugePages::Counts SharedMemory::huge_pages() const {
  return state_->huge_pages == nullptr ? HugePages::Counts() : state_->huge_pages->counts();
}

void SharedMemory::FinishHugePages() {
  if (state_->huge_pages != nullptr) state_->huge_pages->Finish();
}

}  // namespace npubank::service
