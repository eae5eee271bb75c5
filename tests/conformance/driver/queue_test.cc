// Queues and fences, one test per fact of a real NPU.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

class QueueTest : public DriverTest {
 protected:
  // `list`, which waits for `event`, runs with the fence; then the event is not signaled again.
  void RunOnce(ze_command_list_handle_t list, ze_event_handle_t event, ze_fence_handle_t fence) {
    ASSERT_EQ(zeEventHostSignal(event), ZE_RESULT_SUCCESS);
    ASSERT_EQ(Submit(list, fence), ZE_RESULT_SUCCESS);
    ASSERT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_SUCCESS);
    ASSERT_EQ(zeEventHostReset(event), ZE_RESULT_SUCCESS);
  }
  ze_command_queue_handle_t NewQueue(ze_command_queue_mode_t mode) {
    ze_command_queue_desc_t desc = {};
    desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
    desc.mode = mode;
    ze_command_queue_handle_t queue = nullptr;
    EXPECT_EQ(zeCommandQueueCreate(context_, device_, &desc, &queue), ZE_RESULT_SUCCESS);
    return queue;
  }

  // A closed list with one copy.
  ze_command_list_handle_t NewCopy(void* to, const void* from, size_t bytes) {
    const ze_command_list_handle_t list = NewList();
    EXPECT_EQ(zeCommandListAppendMemoryCopy(list, to, from, bytes, nullptr, 0, nullptr),
              ZE_RESULT_SUCCESS);
    EXPECT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
    return list;
  }
};

TEST_F(QueueTest, ExecutingAListInFlightBlocksTwoSecondsAndIsUnknown) {
  const ze_event_handle_t event = NewEvents(1)[0];
  const ze_command_list_handle_t first = NewWaitingList(event);
  const ze_command_list_handle_t second = NewWaitingList(event);
  // The first is killed after two seconds; the second is in flight that long and longer.
  ASSERT_EQ(Submit(first, nullptr), ZE_RESULT_SUCCESS);
  ASSERT_EQ(Submit(second, nullptr), ZE_RESULT_SUCCESS);
  ze_result_t result = ZE_RESULT_SUCCESS;
  const double seconds = Seconds([&] { result = Submit(second, nullptr); });
  EXPECT_EQ(result, ZE_RESULT_ERROR_UNKNOWN);
  EXPECT_GT(seconds, 1.9);
  zeEventHostSignal(event);
  // The first was killed, or, where its two seconds began late, saved by the signal: not the question here.
  zeCommandQueueSynchronize(queue_, kForever);
}

TEST_F(QueueTest, AJobThatWaitsLongerThanTwoSecondsIsKilled) {
  const ze_event_handle_t event = NewEvents(1)[0];
  const ze_fence_handle_t fence = NewFence();
  ASSERT_EQ(Submit(NewWaitingList(event), fence), ZE_RESULT_SUCCESS);
  ze_result_t result = ZE_RESULT_SUCCESS;
  const double seconds = Seconds([&] { result = zeFenceHostSynchronize(fence, kForever); });
  EXPECT_EQ(result, ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_GT(seconds, 1.9);
}

TEST_F(QueueTest, AListInFlightIsNotReset) {
  NPUBANK_NEEDS_SOFTWARE_NPU();  // what a real driver does is not known
  const ze_event_handle_t event = NewEvents(1)[0];
  const ze_command_list_handle_t list = NewWaitingList(event);
  const ze_fence_handle_t fence = NewFence();
  ASSERT_EQ(Submit(list, fence), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandListReset(list), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
  EXPECT_EQ(zeFenceDestroy(fence), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
  ASSERT_EQ(zeEventHostSignal(event), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_SUCCESS);
}

TEST_F(QueueTest, AFenceNeverSubmittedIsNotReadyAtOnce) {
  const ze_fence_handle_t fence = NewFence();
  EXPECT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_NOT_READY);
  EXPECT_EQ(zeFenceQueryStatus(fence), ZE_RESULT_NOT_READY);
}

TEST_F(QueueTest, AFenceWaitsForItsSubmission) {
  const ze_event_handle_t event = NewEvents(1)[0];
  const ze_fence_handle_t fence = NewFence();
  ASSERT_EQ(Submit(NewWaitingList(event), fence), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceQueryStatus(fence), ZE_RESULT_NOT_READY);
  EXPECT_EQ(zeFenceHostSynchronize(fence, kMillisecond), ZE_RESULT_NOT_READY);
  EXPECT_EQ(zeCommandQueueSynchronize(queue_, kMillisecond), ZE_RESULT_NOT_READY);
  ASSERT_EQ(zeEventHostSignal(event), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceQueryStatus(fence), ZE_RESULT_SUCCESS);
}

TEST_F(QueueTest, AFenceReusedWithoutResetReportsSuccessTooEarly) {
  const ze_event_handle_t event = NewEvents(1)[0];
  const ze_command_list_handle_t list = NewWaitingList(event);
  const ze_fence_handle_t fence = NewFence();
  ASSERT_NO_FATAL_FAILURE(RunOnce(list, event, fence));
  ASSERT_EQ(Submit(list, fence), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_SUCCESS) << "while it still waits";
  EXPECT_EQ(zeCommandQueueSynchronize(queue_, 0), ZE_RESULT_NOT_READY);
  ASSERT_EQ(zeEventHostSignal(event), ZE_RESULT_SUCCESS);
}

TEST_F(QueueTest, AFenceThatIsResetWaitsAgain) {
  const ze_event_handle_t event = NewEvents(1)[0];
  const ze_command_list_handle_t list = NewWaitingList(event);
  const ze_fence_handle_t fence = NewFence();
  ASSERT_NO_FATAL_FAILURE(RunOnce(list, event, fence));
  ASSERT_EQ(zeFenceReset(fence), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_NOT_READY) << "not submitted";
  ASSERT_EQ(Submit(list, fence), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceQueryStatus(fence), ZE_RESULT_NOT_READY);
  ASSERT_EQ(zeEventHostSignal(event), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_SUCCESS);
}

TEST_F(QueueTest, ListsOfOneSubmissionRunInOrder) {
  uint8_t* const memory = Device(16);
  std::vector<ze_command_list_handle_t> lists;
  for (size_t i = 0; i < 4; ++i) {
    lists.push_back(NewList());
    ASSERT_EQ(zeCommandListAppendMemoryCopy(lists.back(), memory + i + 1, memory + i, 1, nullptr, 0,
                                            nullptr),
              ZE_RESULT_SUCCESS);
    ASSERT_EQ(zeCommandListClose(lists.back()), ZE_RESULT_SUCCESS);
  }
  memory[0] = 5;
  ASSERT_EQ(zeCommandQueueExecuteCommandLists(queue_, 4, lists.data(), nullptr), ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeCommandQueueSynchronize(queue_, kForever), ZE_RESULT_SUCCESS);
  EXPECT_EQ(memory[4], 5);
  Free(memory);
}

TEST_F(QueueTest, TwoQueuesMeetAtAnEvent) {
  ze_command_queue_desc_t desc = {};
  desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  ze_command_queue_handle_t other = nullptr;
  ASSERT_EQ(zeCommandQueueCreate(context_, device_, &desc, &other), ZE_RESULT_SUCCESS);
  const ze_event_handle_t event = NewEvents(1)[0];
  ASSERT_EQ(Submit(NewWaitingList(event), nullptr), ZE_RESULT_SUCCESS);
  ze_command_list_handle_t signal = NewList();
  ASSERT_EQ(zeCommandListAppendSignalEvent(signal, event), ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeCommandListClose(signal), ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeCommandQueueExecuteCommandLists(other, 1, &signal, nullptr), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandQueueSynchronize(queue_, kForever), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandQueueDestroy(other), ZE_RESULT_SUCCESS);
}

TEST_F(QueueTest, ASynchronousQueueReturnsWhenTheWorkIsDone) {
  if (IsSoftwareNpu()) SetSwitches({{"NPUBANK_NPU_COPY_DELAY_US", "30000"}});
  constexpr size_t kBytes = size_t{16} << 20;
  uint8_t* const from = Host(kBytes);
  uint8_t* const to = Device(kBytes);
  std::memset(from, 7, kBytes);
  ze_command_list_handle_t list = NewCopy(to, from, kBytes);
  const ze_command_queue_handle_t queue = NewQueue(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  ASSERT_EQ(zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::memcmp(to, from, kBytes), 0);
  EXPECT_EQ(zeCommandQueueSynchronize(queue, 0), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandQueueDestroy(queue), ZE_RESULT_SUCCESS);
  Free(from);
  Free(to);
}

TEST_F(QueueTest, TheSameListTwiceInOneExecuteRunsTwice) {
  uint8_t* const memory = Device(16);
  std::memset(memory, 0, 16);
  memory[0] = 9;
  const ze_command_list_handle_t list = NewCopy(memory + 1, memory, 8);
  ze_command_list_handle_t twice[] = {list, list};
  const ze_fence_handle_t fence = NewFence();
  ASSERT_EQ(zeCommandQueueExecuteCommandLists(queue_, 2, twice, fence), ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_SUCCESS);
  EXPECT_EQ(memory[2], 9);
  EXPECT_EQ(memory[3], 0);
  Free(memory);
}

TEST_F(QueueTest, TwoThreadsThatSubmitTheSameListsCrosswiseDoNotBlockEachOther) {
  constexpr int kRounds = 200;
  const ze_command_list_handle_t a = NewClosedList();
  const ze_command_list_handle_t b = NewClosedList();
  const ze_command_queue_handle_t other = NewQueue(ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
  const auto submit = [](ze_command_queue_handle_t queue, ze_command_list_handle_t first,
                         ze_command_list_handle_t second) {
    ze_command_list_handle_t lists[] = {first, second};
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_EQ(zeCommandQueueExecuteCommandLists(queue, 2, lists, nullptr), ZE_RESULT_SUCCESS);
    }
  };
  std::thread crosswise([&] { submit(other, b, a); });
  submit(queue_, a, b);
  crosswise.join();
  EXPECT_EQ(zeCommandQueueSynchronize(queue_, kForever), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandQueueDestroy(other), ZE_RESULT_SUCCESS);
}

TEST_F(QueueTest, OneOpenListAndNothingOfTheCallRuns) {
  uint8_t* const memory = Device(16);
  std::memset(memory, 0, 16);
  memory[0] = 9;
  ze_command_list_handle_t lists[] = {NewCopy(memory + 1, memory, 1), NewList()};
  EXPECT_EQ(zeCommandQueueExecuteCommandLists(queue_, 2, lists, nullptr),
            ZE_RESULT_ERROR_UNINITIALIZED);
  ASSERT_EQ(zeCommandQueueSynchronize(queue_, kForever), ZE_RESULT_SUCCESS);
  EXPECT_EQ(memory[1], 0);
  Free(memory);
}

TEST_F(QueueTest, AListDestroyedWhileItsJobRunsRunsOn) {
  uint8_t* const memory = Device(16);
  std::memset(memory, 0, 16);
  memory[0] = 9;
  ze_event_handle_t gate = NewEvents(1)[0];
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListAppendMemoryCopy(list, memory + 1, memory, 1, nullptr, 1, &gate),
            ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  const ze_fence_handle_t fence = NewFence();
  ASSERT_EQ(Submit(list, fence), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandListDestroy(list), ZE_RESULT_SUCCESS);
  Forget(list);
  ASSERT_EQ(zeEventHostSignal(gate), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_SUCCESS);
  EXPECT_EQ(memory[1], 9);
  Free(memory);
}

TEST_F(QueueTest, AFailedJobKeepsTheQueueLostAsLongAsItsFenceOrListExists) {
  uint8_t* const memory = Device(4096);
  const ze_command_list_handle_t failing = NewCopy(memory, memory, 4097);
  const ze_fence_handle_t fence = NewFence();
  ASSERT_EQ(Submit(failing, fence), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_ERROR_DEVICE_LOST);
  const auto synchronize = [&] { return zeCommandQueueSynchronize(queue_, kForever); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(synchronize(), ZE_RESULT_ERROR_DEVICE_LOST) << i;
  EXPECT_EQ(Copy(memory, memory + 64, 64), ZE_RESULT_SUCCESS) << "later jobs run";
  EXPECT_EQ(synchronize(), ZE_RESULT_ERROR_DEVICE_LOST);
  ASSERT_EQ(zeCommandListDestroy(failing), ZE_RESULT_SUCCESS);
  Forget(failing);
  EXPECT_EQ(synchronize(), ZE_RESULT_ERROR_DEVICE_LOST) << "its fence is there";
  ASSERT_EQ(zeFenceDestroy(fence), ZE_RESULT_SUCCESS);
  Forget(fence);
  EXPECT_EQ(synchronize(), ZE_RESULT_SUCCESS);
  Free(memory);
}

}  // namespace
}  // namespace npubank
