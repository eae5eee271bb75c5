#include "runtime/memory/upload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lazy_tensor/status_macros.h"
#include "runtime/level_zero/buffer.h"
#include "runtime/level_zero/commands.h"

namespace npubank {
namespace {

using level_zero::Buffer;
using level_zero::CommandList;
using level_zero::CommandQueue;

// One buffer of the ring and the list that copies it. The list goes first: it waits for the copy.
struct Slot {
  Buffer buffer;
  CommandList list;
};

absl::StatusOr<Slot> MakeSlot(const std::shared_ptr<level_zero::Device>& device,
                              CommandQueue& queue, uint64_t bytes) {
  NPUBANK_ASSIGN_OR_RETURN(Buffer buffer, Buffer::AllocateHost(device, bytes, "staging"));
  NPUBANK_ASSIGN_OR_RETURN(CommandList list, CommandList::Create(queue));
  return Slot{std::move(buffer), std::move(list)};
}

absl::Status SubmitCopy(CommandQueue& queue, CommandList& list, void* to, const void* from,
                        uint64_t bytes) {
  NPUBANK_RETURN_IF_ERROR(list.Reset());
  NPUBANK_RETURN_IF_ERROR(list.AppendCopy(to, from, bytes));
  NPUBANK_RETURN_IF_ERROR(list.Close());
  return queue.Submit(list);
}

}  // namespace

absl::Status Staging::Upload(void* to, uint64_t bytes, ProduceBytes produce) const {
  NPUBANK_ASSIGN_OR_RETURN(CommandQueue queue, CommandQueue::Create(device_));
  const uint64_t piece = std::min(bytes, kPieceBytes);
  NPUBANK_ASSIGN_OR_RETURN(Slot first, MakeSlot(device_, queue, piece));
  NPUBANK_ASSIGN_OR_RETURN(Slot second, MakeSlot(device_, queue, piece));
  Slot* slots[] = {&first, &second};
  int turn = 0;
  for (uint64_t offset = 0; offset < bytes; offset += piece, turn ^= 1) {
    Slot& slot = *slots[turn];
    const uint64_t size = std::min(piece, bytes - offset);
    NPUBANK_RETURN_IF_ERROR(slot.list.Wait());
    NPUBANK_RETURN_IF_ERROR(produce(offset, slot.buffer.bytes().subspan(0, size)));
    NPUBANK_RETURN_IF_ERROR(SubmitCopy(queue, slot.list, static_cast<std::byte*>(to) + offset,
                                       slot.buffer.address(), size));
  }
  NPUBANK_RETURN_IF_ERROR(first.list.Wait());
  return second.list.Wait();
}

absl::Status Staging::Download(const void* from, absl::Span<std::byte> out) const {
  if (out.empty()) return absl::OkStatus();
  NPUBANK_ASSIGN_OR_RETURN(CommandQueue queue, CommandQueue::Create(device_));
  const uint64_t piece = std::min<uint64_t>(out.size(), kPieceBytes);
  NPUBANK_ASSIGN_OR_RETURN(Slot slot, MakeSlot(device_, queue, piece));
  for (uint64_t offset = 0; offset < out.size(); offset += piece) {
    const uint64_t size = std::min<uint64_t>(piece, out.size() - offset);
    NPUBANK_RETURN_IF_ERROR(SubmitCopy(queue, slot.list, slot.buffer.address(),
                                       static_cast<const std::byte*>(from) + offset, size));
    NPUBANK_RETURN_IF_ERROR(slot.list.Wait());
    std::memcpy(out.data() + offset, slot.buffer.address(), size);
  }
  return absl::OkStatus();
}

}  // namespace npubank
