#include "npubank/runtime/software_npu/queues/command_list.h"

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/graph.h"
#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {
namespace {

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
  return true;
}

bool Execute(const Fill& fill) {
  const Pins pins({fill.to});
  uint8_t* const to = fill.to.Access(fill.bytes, Intent::kWrite);
  if (to == nullptr) return false;
  for (uint64_t i = 0; i < fill.bytes; i += fill.pattern_bytes) {
    std::memcpy(to + i, fill.pattern.data(), fill.pattern_bytes);
  }
  return true;
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
}

ze_result_t CommandList::Reset() {
  std::vector<Command> dropped;  // what it holds goes outside of the lock
  MutexLock lock(mutex_);
  if (in_flight_) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  closed_ = false;
  dropped.swap(commands_);
  return ZE_RESULT_SUCCESS;
}

bool CommandList::in_flight() const {
  MutexLock lock(mutex_);
  return in_flight_;
}

ze_result_t CommandList::Begin(Deadline deadline) {
  MutexLock lock(mutex_);
  if (!closed_) return ZE_RESULT_ERROR_UNINITIALIZED;
  while (in_flight_) {
    if (!idle_.WaitUntil(mutex_, deadline) && in_flight_) return ZE_RESULT_ERROR_UNKNOWN;
  }
  in_flight_ = true;
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

void CommandList::End() {
  for (const Command& command : commands_) {
    if (command.signal != nullptr) command.signal->EndPending();
  }
  MutexLock lock(mutex_);
  in_flight_ = false;
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
  const std::shared_ptr<CommandList> list = Live<CommandList>().Find(handle);
  if (list == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (list->in_flight()) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  Live<CommandList>().Remove(handle);
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
  if (bytes % pattern_bytes != 0) return ZE_RESULT_ERROR_INVALID_SIZE;
  std::optional<Place> place = FindPlace(*list, to);
  if (!place.has_value()) return ZE_RESULT_ERROR_UNINITIALIZED;
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
