// Commands: a queue, and recorded lists of commands that can be run again and again.
//
//   NPUBANK_ASSIGN_OR_RETURN(CommandQueue queue, CommandQueue::Create(device));
//   NPUBANK_ASSIGN_OR_RETURN(CommandList list, CommandList::Create(queue));
//   NPUBANK_RETURN_IF_ERROR(list.AppendCopy(to, from, bytes));
//   NPUBANK_RETURN_IF_ERROR(list.Close());
//   NPUBANK_RETURN_IF_ERROR(queue.Submit(list));   // returns at once
//   NPUBANK_RETURN_IF_ERROR(list.Wait());          // until it is done
//
// Each list has its own fence: regular lists with fences are what NPU drivers do well (immediate
// lists cannot use events there). A list is submitted again only after Wait. Copy endpoints must be
// Level Zero memory of the device's context. Threads: one list by one thread at a time; a queue by
// one at a time.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_COMMANDS_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_COMMANDS_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/level_zero/handle.h"

namespace npubank::level_zero {

class CommandQueue;

class CommandList {
 public:
  static absl::StatusOr<CommandList> Create(CommandQueue& queue);
  CommandList(CommandList&&) = default;
  CommandList& operator=(CommandList&&) = delete;  // what was in flight would have to be awaited
  ~CommandList();

  absl::Status AppendCopy(void* to, const void* from, size_t bytes);
  absl::Status AppendBarrier();
  absl::Status AppendGraph(GraphHandle graph);
  // What a graph may need once, before it is first executed (Graph::Initialize says whether).
  absl::Status AppendGraphInitialize(GraphHandle graph);
  absl::Status Close();
  // Blocks until the last submission is done, whether well or not; OK at once when there was none.
  absl::Status Wait();
  // Empties a list that is not in flight, to record anew.
  absl::Status Reset();

 private:
  friend class CommandQueue;
  CommandList() = default;
  void WaitUntilIdle() const;

  std::shared_ptr<Device> device_;
  std::shared_ptr<QueueHandle> queue_;
  FenceHandle fence_;
  ListHandle list_;
  bool in_flight_ = false;
};

class CommandQueue {
 public:
  static absl::StatusOr<CommandQueue> Create(std::shared_ptr<Device> device);
  // The list must be closed. It and all it touches must live until its Wait.
  absl::Status Submit(CommandList& list);

 private:
  friend class CommandList;
  CommandQueue() = default;
  std::shared_ptr<Device> device_;
  std::shared_ptr<QueueHandle> queue_;
};

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_COMMANDS_H_
