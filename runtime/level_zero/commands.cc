#include "npubank/runtime/level_zero/commands.h"

#include <chrono>
#include <thread>
#include <utility>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/result.h"

namespace npubank::level_zero {
namespace {

constexpr std::chrono::milliseconds kPollPause{1};

}  // namespace

absl::StatusOr<CommandQueue> CommandQueue::Create(std::shared_ptr<Device> device) {
  CommandQueue queue;
  queue.device_ = std::move(device);
  queue.queue_ = std::make_shared<QueueHandle>();
  ze_command_queue_desc_t desc = {};
  desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  desc.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
  NPUBANK_RETURN_IF_ERROR(
      ZeStatus(zeCommandQueueCreate(queue.device_->context(), queue.device_->device(), &desc,
                                    queue.queue_->Receive()),
               "zeCommandQueueCreate"));
  return queue;
}

absl::Status CommandQueue::Submit(CommandList& list) {
  NPUBANK_RETURN_IF_ERROR(list.Wait());
  NPUBANK_RETURN_IF_ERROR(ZeStatus(zeFenceReset(list.fence_.get()), "zeFenceReset"));
  ze_command_list_handle_t handle = list.list_.get();
  NPUBANK_RETURN_IF_ERROR(
      ZeStatus(zeCommandQueueExecuteCommandLists(queue_->get(), 1, &handle, list.fence_.get()),
               "zeCommandQueueExecuteCommandLists"));
  list.in_flight_ = true;
  return absl::OkStatus();
}

absl::StatusOr<CommandList> CommandList::Create(CommandQueue& queue) {
  CommandList list;
  list.device_ = queue.device_;
  list.queue_ = queue.queue_;
  ze_fence_desc_t fence = {ZE_STRUCTURE_TYPE_FENCE_DESC, nullptr, 0};
  NPUBANK_RETURN_IF_ERROR(
      ZeStatus(zeFenceCreate(list.queue_->get(), &fence, list.fence_.Receive()), "zeFenceCreate"));
  ze_command_list_desc_t desc = {};
  desc.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC;
  NPUBANK_RETURN_IF_ERROR(
      ZeStatus(zeCommandListCreate(list.device_->context(), list.device_->device(), &desc,
                                   list.list_.Receive()),
               "zeCommandListCreate"));
  return list;
}

// Commands in flight may still write to memory that its owner is about to free.
CommandList::~CommandList() {
  if (list_.get()) Wait().IgnoreError();
}

absl::Status CommandList::AppendCopy(void* to, const void* from, size_t bytes) {
  return ZeStatus(zeCommandListAppendMemoryCopy(list_.get(), to, from, bytes, nullptr, 0, nullptr),
                  "zeCommandListAppendMemoryCopy");
}

absl::Status CommandList::AppendBarrier() {
  return ZeStatus(zeCommandListAppendBarrier(list_.get(), nullptr, 0, nullptr),
                  "zeCommandListAppendBarrier");
}

absl::Status CommandList::AppendGraph(GraphHandle graph) {
  return ZeStatus(
      device_->graphs()->pfnAppendGraphExecute(list_.get(), graph, nullptr, nullptr, 0, nullptr),
      "pfnAppendGraphExecute");
}

absl::Status CommandList::AppendGraphInitialize(GraphHandle graph) {
  return ZeStatus(
      device_->graphs()->pfnAppendGraphInitialize(list_.get(), graph, nullptr, 0, nullptr),
      "pfnAppendGraphInitialize");
}

absl::Status CommandList::Close() {
  return ZeStatus(zeCommandListClose(list_.get()), "zeCommandListClose");
}

absl::Status CommandList::Wait() {
  if (!in_flight_) return absl::OkStatus();
  ze_result_t result = ZE_RESULT_NOT_READY;
  // A signal may interrupt the driver's wait, which then reports NOT_READY.
  while (result == ZE_RESULT_NOT_READY) result = zeFenceHostSynchronize(fence_.get(), UINT64_MAX);
  if (result != ZE_RESULT_SUCCESS) WaitUntilIdle();
  in_flight_ = false;
  return ZeStatus(result, "zeFenceHostSynchronize");
}

// A wait that failed says nothing about the job, and whoever is told so may touch its memory, free
// it or submit the list again. So the fence is asked until the job has ended or the device is lost.
void CommandList::WaitUntilIdle() const {
  while (zeFenceQueryStatus(fence_.get()) == ZE_RESULT_NOT_READY &&
         zeDeviceGetStatus(device_->device()) == ZE_RESULT_SUCCESS)
    std::this_thread::sleep_for(kPollPause);
}

absl::Status CommandList::Reset() {
  NPUBANK_RETURN_IF_ERROR(Wait());
  return ZeStatus(zeCommandListReset(list_.get()), "zeCommandListReset");
}

}  // namespace npubank::level_zero
