#include "npubank/runtime/memory/upload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/buffer.h"
#include "npubank/runtime/level_zero/commands.h"
#include "npubank/runtime/memory/held_buffer.h"

namespace npubank {
namespace {

using level_zero::Buffer;
using level_zero::CommandList;
using level_zero::CommandQueue;

// One buffer and the list that copies it. The list goes first: it waits for the copy.
struct Slot {
  HeldBuffer buffer;
  CommandList list;
};

}  // namespace

class Staging::Ring {
 public:
  static absl::StatusOr<std::unique_ptr<Ring>> Create(
      const std::shared_ptr<level_zero::Device>& device, const std::shared_ptr<Accounting>& accounting,
      uint64_t piece_bytes) {
    NPUBANK_ASSIGN_OR_RETURN(CommandQueue queue, CommandQueue::Create(device));
    std::unique_ptr<Ring> ring(new Ring(std::move(queue), piece_bytes));
    ring->slots_.reserve(kSlots);
    for (int i = 0; i < kSlots; ++i) {
      NPUBANK_ASSIGN_OR_RETURN(Buffer buffer, Buffer::AllocateHost(device, piece_bytes, "staging"));
      HeldBuffer held(std::move(buffer), accounting);
      NPUBANK_ASSIGN_OR_RETURN(CommandList list, CommandList::Create(ring->queue_));
      ring->slots_.push_back(Slot{std::move(held), std::move(list)});
    }
    return ring;
  }

  uint64_t piece_bytes() const { return piece_bytes_; }
  uint64_t reserved_bytes() const {
    uint64_t bytes = 0;
    for (const Slot& slot : slots_) bytes += slot.buffer.reserved_bytes();
    return bytes;
  }

  absl::Status Upload(std::byte* to, uint64_t bytes, ProduceBytes produce) {
    size_t turn = 0;
    for (uint64_t offset = 0; offset < bytes; offset += piece_bytes_, ++turn) {
      Slot& slot = slots_[turn % kSlots];
      const uint64_t size = std::min(piece_bytes_, bytes - offset);
      NPUBANK_RETURN_IF_ERROR(slot.list.Wait());
      NPUBANK_RETURN_IF_ERROR(produce(offset, absl::MakeSpan(slot.buffer.address(), size)));
      NPUBANK_RETURN_IF_ERROR(Submit(slot, to + offset, slot.buffer.address(), size));
    }
    return WaitAll();
  }

  absl::Status Download(const std::byte* from, absl::Span<std::byte> out) {
    Slot& slot = slots_.front();
    for (uint64_t offset = 0; offset < out.size(); offset += piece_bytes_) {
      const uint64_t size = std::min<uint64_t>(piece_bytes_, out.size() - offset);
      NPUBANK_RETURN_IF_ERROR(Submit(slot, slot.buffer.address(), from + offset, size));
      NPUBANK_RETURN_IF_ERROR(slot.list.Wait());
      std::memcpy(out.data() + offset, slot.buffer.address(), size);
    }
    return WaitAll();
  }

 private:
  static constexpr int kSlots = 2;

  Ring(CommandQueue queue, uint64_t piece_bytes)
      : queue_(std::move(queue)), piece_bytes_(piece_bytes) {}

  absl::Status Submit(Slot& slot, void* to, const void* from, uint64_t bytes) {
    NPUBANK_RETURN_IF_ERROR(slot.list.Reset());
    NPUBANK_RETURN_IF_ERROR(slot.list.AppendCopy(to, from, bytes));
    NPUBANK_RETURN_IF_ERROR(slot.list.Close());
    return queue_.Submit(slot.list);
  }

  // Then the lists are emptied: one that still names a tensor would keep its memory from being
  // freed.
  absl::Status WaitAll() {
    for (Slot& slot : slots_) NPUBANK_RETURN_IF_ERROR(slot.list.Reset());
    return absl::OkStatus();
  }

  CommandQueue queue_;
  const uint64_t piece_bytes_;
  std::vector<Slot> slots_;
};

Staging::Staging(std::shared_ptr<level_zero::Device> device, std::shared_ptr<Accounting> accounting,
                 std::function<void()> make_room)
    : device_(std::move(device)), accounting_(std::move(accounting)), make_room_(std::move(make_room)) {}

Staging::~Staging() = default;

absl::Status Staging::Upload(void* to, uint64_t bytes, ProduceBytes produce) {
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Ring> ring, TakeRing(bytes));
  NPUBANK_RETURN_IF_ERROR(ring->Upload(static_cast<std::byte*>(to), bytes, produce));
  KeepRing(std::move(ring));
  return absl::OkStatus();
}

absl::Status Staging::Download(const void* from, absl::Span<std::byte> out) {
  if (out.empty()) return absl::OkStatus();
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<Ring> ring, TakeRing(out.size()));
  NPUBANK_RETURN_IF_ERROR(ring->Download(static_cast<const std::byte*>(from), out));
  KeepRing(std::move(ring));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Staging::Ring>> Staging::TakeRing(uint64_t bytes) {
  uint64_t piece = kLeastPieceBytes;
  while (piece < std::min(bytes, kPieceBytes)) piece *= 2;
  std::unique_ptr<Ring> too_small;  // makes way for a larger one; destroyed without the lock
  {
    MutexLock lock(mutex_);
    const auto large_enough = std::find_if(rings_.begin(), rings_.end(), [&](const auto& ring) {
      return ring->piece_bytes() >= piece;
    });
    if (large_enough != rings_.end()) {
      std::unique_ptr<Ring> ring = std::move(*large_enough);
      rings_.erase(large_enough);
      return ring;
    }
    if (!rings_.empty()) {
      too_small = std::move(rings_.back());
      rings_.pop_back();
    }
  }
  too_small.reset();
  absl::StatusOr<std::unique_ptr<Ring>> ring = Ring::Create(device_, accounting_, piece);
  if (!absl::IsResourceExhausted(ring.status())) return ring;
  make_room_();
  return Ring::Create(device_, accounting_, kLeastPieceBytes);
}

void Staging::KeepRing(std::unique_ptr<Ring> ring) {
  MutexLock lock(mutex_);
  if (rings_.size() < kKeptRings) rings_.push_back(std::move(ring));
}

uint64_t Staging::Trim() {
  Rings rings;
  {
    MutexLock lock(mutex_);
    rings.swap(rings_);
  }
  uint64_t bytes = 0;
  for (const std::unique_ptr<Ring>& ring : rings) bytes += ring->reserved_bytes();
  return bytes;
}

}  // namespace npubank
