// CommandList: commands, recorded once and executed as often as wanted.
//
// Pointers are resolved when a command is appended, and what they point into is held until the list
// is reset, or destroyed and no longer in flight. A list is open, then closed; in flight while a
// queue works on it.
//   append after Close             NOT_AVAILABLE
//   execute without Close          UNINITIALIZED (queue.h)
//   an endpoint outside of memory that Level Zero knows   UNINITIALIZED at append
//   a fill that leaves its allocation                     UNINITIALIZED at append
//   a copy that leaves its allocation                     DEVICE_LOST when executed
//   reset in flight                HANDLE_OBJECT_IN_USE
//   destroy in flight              SUCCESS; the job runs on with what it needs
// Threads: any; commands are appended by one thread at a time.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_COMMAND_LIST_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_COMMAND_LIST_H_

#include <level_zero/ze_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/software_npu/context.h"
#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/memory/allocation.h"
#include "npubank/runtime/software_npu/queues/deadline.h"
#include "npubank/runtime/software_npu/queues/event.h"

namespace npubank::software_npu {

class Graph;

struct Nothing {};  // a barrier, or only events
struct Copy {
  Place to;
  Place from;
  uint64_t bytes = 0;
};
// Rows of bytes, each so far from the one before.
struct CopyRows {
  Place to;
  Place from;
  uint64_t width = 0;
  uint64_t rows = 0;
  uint64_t to_pitch = 0;
  uint64_t from_pitch = 0;
};
struct Fill {
  Place to;
  std::array<uint8_t, 4> pattern = {};
  uint64_t pattern_bytes = 0;
  uint64_t bytes = 0;
};
struct WriteTimestamp {
  Place to;
};
struct ResetEvent {
  std::shared_ptr<Event> event;
};
struct ExecuteGraph {
  std::shared_ptr<Graph> graph;
  std::vector<Place> arguments;
};

struct Command {
  std::vector<std::shared_ptr<Event>> waits;
  std::variant<Nothing, Copy, CopyRows, Fill, WriteTimestamp, ResetEvent, ExecuteGraph> work;
  std::shared_ptr<Event> signal;  // or null
};

// A job that failed. Its fence and its list hold it; the queue reports it for as long.
struct Failure {};

class CommandList {
 public:
  using Handle = ze_command_list_handle_t;
  static constexpr HandleKind kHandleKind = HandleKind::kCommandList;
  static constexpr bool kUsableAfterFork = false;

  explicit CommandList(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  virtual ~CommandList() = default;

  ChildOf<Context>& context() { return context_; }

  ze_result_t Append(Command command);
  void Close();
  ze_result_t Reset();
  // SUCCESS: the list is in flight, and its signals pending, until End. UNINITIALIZED: not closed.
  // UNKNOWN: still in flight at the deadline.
  ze_result_t Begin(Deadline deadline);
  bool closed() const;
  // Executes all commands of a list in flight.
  ze_result_t Run() const;
  // Not in flight any more; `failure` is null after a job that succeeded.
  void End(std::shared_ptr<const Failure> failure);

 private:
  ChildOf<Context> context_;
  mutable Mutex mutex_;
  CondVar idle_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool in_flight_ ABSL_GUARDED_BY(mutex_) = false;
  // Of its last execution; until the next one, a reset or its end.
  std::shared_ptr<const Failure> failure_ ABSL_GUARDED_BY(mutex_);
  // The command buffer, which is made when the list is closed.
  std::optional<Counted> buffer_ ABSL_GUARDED_BY(mutex_);
  // Changes only while the list is open and not in flight, so Run reads it without the lock.
  std::vector<Command> commands_;
};

// The events of an append call, checked.
ze_result_t ResolveEvents(ze_event_handle_t signal, uint32_t waits,
                          const ze_event_handle_t* wait_handles, Command* command);

ze_result_t CommandListCreate(ze_context_handle_t handle, ze_device_handle_t device,
                              const ze_command_list_desc_t* desc, ze_command_list_handle_t* out);
ze_result_t CommandListDestroy(ze_command_list_handle_t handle);
ze_result_t CommandListClose(ze_command_list_handle_t handle);
ze_result_t CommandListReset(ze_command_list_handle_t handle);
ze_result_t CommandListAppendWriteGlobalTimestamp(ze_command_list_handle_t handle, uint64_t* to,
                                                  ze_event_handle_t signal, uint32_t waits,
                                                  ze_event_handle_t* wait_handles);
ze_result_t CommandListAppendBarrier(ze_command_list_handle_t handle, ze_event_handle_t signal,
                                     uint32_t waits, ze_event_handle_t* wait_handles);
ze_result_t CommandListAppendMemoryCopy(ze_command_list_handle_t handle, void* to, const void* from,
                                        size_t bytes, ze_event_handle_t signal, uint32_t waits,
                                        ze_event_handle_t* wait_handles);
// In two dimensions: the depth is at most 1 and slice pitches are not looked at.
ze_result_t CommandListAppendMemoryCopyRegion(ze_command_list_handle_t handle, void* to,
                                              const ze_copy_region_t* to_region, uint32_t to_pitch,
                                              uint32_t to_slice_pitch, const void* from,
                                              const ze_copy_region_t* from_region,
                                              uint32_t from_pitch, uint32_t from_slice_pitch,
                                              ze_event_handle_t signal, uint32_t waits,
                                              ze_event_handle_t* wait_handles);
ze_result_t CommandListAppendMemoryFill(ze_command_list_handle_t handle, void* to,
                                        const void* pattern, size_t pattern_bytes, size_t bytes,
                                        ze_event_handle_t signal, uint32_t waits,
                                        ze_event_handle_t* wait_handles);
ze_result_t CommandListAppendSignalEvent(ze_command_list_handle_t handle, ze_event_handle_t event);
ze_result_t CommandListAppendWaitOnEvents(ze_command_list_handle_t handle, uint32_t waits,
                                          ze_event_handle_t* wait_handles);
ze_result_t CommandListAppendEventReset(ze_command_list_handle_t handle, ze_event_handle_t event);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_QUEUES_COMMAND_LIST_H_
