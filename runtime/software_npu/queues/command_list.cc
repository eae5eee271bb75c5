#include "npubank/runtime/software_npu/queues/command_list.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>

#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/graphs/graph.h"
#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {
namespace {

// How large a real driver's are is not known; that they are counted is.
constexpr uint64_t kCommandBufferBytes = 4096;

bool Execute(const Nothing&) { return true; }

bool Execute(const Copy& copy) {
  const std::chrono::microseconds delay = GetSwitches()->copy_delay;
  if (delay.count() != 0) std::this_thread::sleep_for(delay);
  const Pins pins({copy.to, copy.from});
  uint8_t* const to = copy.to.Access(copy.bytes, Intent::kWrite);
  const uint8_t* const from = copy.from.Access(copy.bytes, Intent::kRead);
  if (to == nullptr || from == nullptr) return false;
  std::memmove(to, from, copy.bytes);
  CountCopiedBytes(copy.bytes);
  return copy.to.allocation->intact() && copy.from.allocation->intact();
}

bool Execute(const CopyRows& copy) {
  if (copy.width == 0 || copy.rows == 0) return true;
  const Pins pins({copy.to, copy.from});
  // Pitches and counts have 32 bits, so neither sum overflows.
  const auto span = [&](uint64_t pitch) { return (copy.rows - 1) * pitch + copy.width; };
  uint8_t* const to = copy.to.Access(span(copy.to_pitch), Intent::kWrite);
  const uint8_t* const from = copy.from.Access(span(copy.from_pitch), Intent::kRead);
  if (to == nullptr || from == nullptr) return false;
  for (uint64_t row = 0; row < copy.rows; ++row) {
    std::memmove(to + row * copy.to_pitch, from + row * copy.from_pitch, copy.width);
  }
  CountCopiedBytes(copy.rows * copy.width);
  return copy.to.allocation->intact() && copy.from.allocation->intact();
}

bool Execute(const Fill& fill) {
  const Pins pins({fill.to});
  uint8_t* const to = fill.to.Access(fill.bytes, Intent::kWrite);
  if (to == nullptr) return false;
  // The last pattern is cut where the size is no multiple of it.
  for (uint64_t i = 0; i < fill.bytes; i += fill.pattern_bytes) {
    std::memcpy(to + i, fill.pattern.data(), std::min(fill.pattern_bytes, fill.bytes - i));
  }
  return fill.to.allocation->intact();
}

bool Execute(const WriteTimestamp& write) {
  const Pins pins({write.to});
  uint8_t* const to = write.to.Access(sizeof(uint64_t), Intent::kWrite);
  if (to == nullptr) return false;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto stamp =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  std::memcpy(to, &stamp, sizeof(stamp));
  return true;
}

bool Execute(const ResetEvent& reset) {
  reset.event->Reset();
  return true;
}

bool Execute(const ExecuteGraph& execute) { return execute.graph->Execute(execute.arguments); }

// The open list of an append call.
ze_result_t FindList(ze_command_list_handle_t handle, std::shared_ptr<CommandList>* list) {
  *list = Live<CommandList>().Find(handle);
  return *list == nullptr ? ZE_RESULT_ERROR_INVALID_NULL_HANDLE : ZE_RESULT_SUCCESS;
}

// Appends `work` with the events of the call.
template <class Work>
ze_result_t AppendWork(CommandList& list, Work work, ze_event_handle_t signal, uint32_t waits,
                       const ze_event_handle_t* wait_handles) {
  Command command;
  if (const ze_result_t result = ResolveEvents(signal, waits, wait_handles, &command);
      result != ZE_RESULT_SUCCESS) {
    return result;
  }
  command.work = std::move(work);
  return list.Append(std::move(command));
}

std::optional<Place> FindPlace(CommandList& list, const void* pointer) {
  return AddressMap::Get().Find(list.context().get().get(), pointer);
}

bool IsFlat(const ze_copy_region_t& region, uint32_t slice_pitch) {
  return region.depth <= 1 && region.originZ == 0 && slice_pitch == 0;
}

// Where a region begins. It may begin outside, which is an error of its execution.
std::optional<Place> FindRegion(CommandList& list, const void* pointer,
                                const ze_copy_region_t& region, uint32_t pitch) {
  std::optional<Place> place = FindPlace(list, pointer);
  if (!place.has_value()) return std::nullopt;
  const uint64_t skipped = uint64_t{region.originY} * pitch + region.originX;
  const uint64_t room = std::numeric_limits<uint64_t>::max() - place->offset;
  place->offset += std::min(skipped, room);
  return place;
}

}  // namespace

ze_result_t CommandList::Append(Command command) {
  MutexLock lock(mutex_);
  if (closed_ || in_flight_) return ZE_RESULT_ERROR_NOT_AVAILABLE;
  commands_.push_back(std::move(command));
  return ZE_RESULT_SUCCESS;
}

void CommandList::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  if (!buffer_.has_value()) {
    buffer_.emplace(Counted::Kind::kDriver, kCommandBufferBytes, context_.get());
  }
}

ze_result_t CommandList::Reset() {
  std::vector<Command> dropped;  // what it holds goes outside of the lock
  MutexLock lock(mutex_);
  if (in_flight_) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  closed_ = false;
  failure_.reset();
  buffer_.reset();
  dropped.swap(commands_);
  return ZE_RESULT_SUCCESS;
}

bool CommandList::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

ze_result_t CommandList::Begin(Deadline deadline) {
  MutexLock lock(mutex_);
  while (closed_ && in_flight_) {
    if (!idle_.WaitUntil(mutex_, deadline) && in_flight_) return ZE_RESULT_ERROR_UNKNOWN;
  }
  if (!closed_) return ZE_RESULT_ERROR_UNINITIALIZED;
  in_flight_ = true;
  failure_.reset();
  for (const Command& command : commands_) {
    if (command.signal != nullptr) command.signal->BeginPending();
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t CommandList::Run() const {
  for (const Command& command : commands_) {
    const Deadline deadline = JobDeadline();
    for (const std::shared_ptr<Event>& event : command.waits) {
      if (!event->WaitSignaled(deadline)) return ZE_RESULT_ERROR_DEVICE_LOST;
    }
    const bool done = std::visit([](const auto& work) { return Execute(work); }, command.work);
    if (!done || DeviceIsLost()) return ZE_RESULT_ERROR_DEVICE_LOST;
    if (command.signal != nullptr) command.signal->Signal();
  }
  return ZE_RESULT_SUCCESS;
}

void CommandList::End(std::shared_ptr<const Failure> failure) {
  for (const Command& command : commands_) {
    if (command.signal != nullptr) command.signal->EndPending();
  }
  MutexLock lock(mutex_);
  in_flight_ = false;
  failure_ = std::move(failure);
  idle_.NotifyAll();
}

ze_result_t ResolveEvents(ze_event_handle_t signal, uint32_t waits,
                          const ze_event_handle_t* wait_handles, Command* command) {
  if (waits != 0 && wait_handles == nullptr) return ZE_RESULT_ERROR_INVALID_SIZE;
  if (signal != nullptr) {
    command->signal = Live<Event>().FindUnwrapped(signal);
    if (command->signal == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  }
  for (uint32_t i = 0; i < waits; ++i) {
    std::shared_ptr<Event> event = Live<Event>().FindUnwrapped(wait_handles[i]);
    if (event == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    command->waits.push_back(std::move(event));
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t CommandListCreate(ze_context_handle_t handle, ze_device_handle_t device,
                              const ze_command_list_desc_t* desc, ze_command_list_handle_t* out) {
  std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr || !IsDevice(device)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (desc->commandQueueGroupOrdinal != 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *out = Live<CommandList>().Add(std::make_shared<CommandList>(std::move(context)));
  return ZE_RESULT_SUCCESS;
}

ze_result_t CommandListDestroy(ze_command_list_handle_t handle) {
  if (CommandList* const inherited = Live<CommandList>().Disown(handle)) {
    inherited->context().Leave();
    return ZE_RESULT_SUCCESS;
  }
  const std::shared_ptr<CommandList> list = Live<CommandList>().Remove(handle);
  if (list == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  list->context().Leave();
  return ZE_RESULT_SUCCESS;
}

ze_result_t CommandListClose(ze_command_list_handle_t handle) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  list->Close();
  return ZE_RESULT_SUCCESS;
}

ze_result_t CommandListReset(ze_command_list_handle_t handle) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  return list->Reset();
}

ze_result_t CommandListAppendWriteGlobalTimestamp(ze_command_list_handle_t handle, uint64_t* to,
                                                  ze_event_handle_t signal, uint32_t waits,
                                                  ze_event_handle_t* wait_handles) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (to == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  std::optional<Place> place = FindPlace(*list, to);
  if (!place.has_value()) return ZE_RESULT_ERROR_UNINITIALIZED;
  return AppendWork(*list, WriteTimestamp{std::move(*place)}, signal, waits, wait_handles);
}

ze_result_t CommandListAppendBarrier(ze_command_list_handle_t handle, ze_event_handle_t signal,
                                     uint32_t waits, ze_event_handle_t* wait_handles) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  return AppendWork(*list, Nothing{}, signal, waits, wait_handles);
}

ze_result_t CommandListAppendMemoryCopy(ze_command_list_handle_t handle, void* to, const void* from,
                                        size_t bytes, ze_event_handle_t signal, uint32_t waits,
                                        ze_event_handle_t* wait_handles) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (to == nullptr || from == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  std::optional<Place> to_place = FindPlace(*list, to);
  std::optional<Place> from_place = FindPlace(*list, from);
  if (!to_place.has_value() || !from_place.has_value()) return ZE_RESULT_ERROR_UNINITIALIZED;
  return AppendWork(*list, Copy{std::move(*to_place), std::move(*from_place), bytes}, signal, waits,
                    wait_handles);
}

ze_result_t CommandListAppendMemoryCopyRegion(ze_command_list_handle_t handle, void* to,
                                              const ze_copy_region_t* to_region, uint32_t to_pitch,
                                              uint32_t to_slice_pitch, const void* from,
                                              const ze_copy_region_t* from_region,
                                              uint32_t from_pitch, uint32_t from_slice_pitch,
                                              ze_event_handle_t signal, uint32_t waits,
                                              ze_event_handle_t* wait_handles) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (to == nullptr || from == nullptr || to_region == nullptr || from_region == nullptr) {
    return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  }
  if (to_region->width != from_region->width || to_region->height != from_region->height) {
    return ZE_RESULT_ERROR_INVALID_SIZE;
  }
  if (!IsFlat(*to_region, to_slice_pitch) || !IsFlat(*from_region, from_slice_pitch)) {
    return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  }
  std::optional<Place> to_place = FindRegion(*list, to, *to_region, to_pitch);
  std::optional<Place> from_place = FindRegion(*list, from, *from_region, from_pitch);
  if (!to_place.has_value() || !from_place.has_value()) return ZE_RESULT_ERROR_UNINITIALIZED;
  return AppendWork(*list,
                    CopyRows{std::move(*to_place), std::move(*from_place), to_region->width,
                             to_region->height, to_pitch, from_pitch},
                    signal, waits, wait_handles);
}

ze_result_t CommandListAppendMemoryFill(ze_command_list_handle_t handle, void* to,
                                        const void* pattern, size_t pattern_bytes, size_t bytes,
                                        ze_event_handle_t signal, uint32_t waits,
                                        ze_event_handle_t* wait_handles) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (to == nullptr || pattern == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4) {
    return ZE_RESULT_ERROR_INVALID_SIZE;
  }
  std::optional<Place> place = FindPlace(*list, to);
  if (!place.has_value() || bytes > place->allocation->bytes() - place->offset) {
    return ZE_RESULT_ERROR_UNINITIALIZED;
  }
  Fill fill = {std::move(*place), {}, pattern_bytes, bytes};
  std::memcpy(fill.pattern.data(), pattern, pattern_bytes);
  return AppendWork(*list, std::move(fill), signal, waits, wait_handles);
}

ze_result_t CommandListAppendSignalEvent(ze_command_list_handle_t handle, ze_event_handle_t event) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (event == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return AppendWork(*list, Nothing{}, event, 0, nullptr);
}

ze_result_t CommandListAppendWaitOnEvents(ze_command_list_handle_t handle, uint32_t waits,
                                          ze_event_handle_t* wait_handles) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  if (wait_handles == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  return AppendWork(*list, Nothing{}, nullptr, waits, wait_handles);
}

ze_result_t CommandListAppendEventReset(ze_command_list_handle_t handle, ze_event_handle_t event) {
  std::shared_ptr<CommandList> list;
  if (const ze_result_t result = FindList(handle, &list); result != ZE_RESULT_SUCCESS) {
    return result;
  }
  std::shared_ptr<Event> found = Live<Event>().Find(event);
  if (found == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return AppendWork(*list, ResetEvent{std::move(found)}, nullptr, 0, nullptr);
}

}  // namespace npubank::software_npu
