// Command lists and events, one test per fact of a real NPU.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

class CommandTest : public DriverTest {};

TEST_F(CommandTest, CopiesMoveBytesAndAreCounted) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  uint8_t* const from = Host(10'000);
  uint8_t* const to = Device(10'000);
  for (size_t i = 0; i < 10'000; ++i) from[i] = static_cast<uint8_t>(i * 7);
  const uint64_t before = Statistics().copied_bytes;
  ASSERT_EQ(Copy(to, from, 10'000), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::memcmp(to, from, 10'000), 0);
  EXPECT_EQ(Statistics().copied_bytes - before, 10'000u);
  Free(from);
  Free(to);
}

TEST_F(CommandTest, FillsRepeatPatternsOfOneTwoOrFourBytes) {
  uint8_t* const memory = Device(64);
  for (size_t width : {1, 2, 4}) {
    const uint8_t pattern[] = {1, 2, 3, 4};
    const ze_command_list_handle_t list = NewList();
    ASSERT_EQ(zeCommandListAppendMemoryFill(list, memory, pattern, width, 64, nullptr, 0, nullptr),
              ZE_RESULT_SUCCESS);
    ASSERT_EQ(Execute(list), ZE_RESULT_SUCCESS);
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(memory[i], pattern[i % width]) << width;
  }
  Free(memory);
}

TEST_F(CommandTest, OtherFillPatternsAreInvalid) {
  uint8_t* const memory = Device(64);
  const uint64_t pattern = 0;
  for (size_t width : {3, 8}) {
    EXPECT_EQ(
        zeCommandListAppendMemoryFill(NewList(), memory, &pattern, width, 24, nullptr, 0, nullptr),
        ZE_RESULT_ERROR_INVALID_SIZE);
  }
  Free(memory);
}

TEST_F(CommandTest, AFillNeedNotBeAWholeNumberOfPatterns) {
  uint8_t* const memory = Device(64);
  std::memset(memory, 9, 64);
  const uint8_t pattern[] = {1, 2, 3, 4};
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListAppendMemoryFill(list, memory, pattern, 4, 7, nullptr, 0, nullptr),
            ZE_RESULT_SUCCESS);
  ASSERT_EQ(Execute(list), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::vector<uint8_t>(memory, memory + 9),
            (std::vector<uint8_t>{1, 2, 3, 4, 1, 2, 3, 9, 9}));
  Free(memory);
}

TEST_F(CommandTest, AFillBeyondItsAllocationFailsAtAppend) {
  uint8_t* const memory = Device(100);
  const uint8_t pattern = 1;
  const ze_command_list_handle_t list = NewList();
  for (size_t bytes : {size_t{101}, size_t{4096}, SIZE_MAX}) {
    EXPECT_NE(zeCommandListAppendMemoryFill(list, memory, &pattern, 1, bytes, nullptr, 0, nullptr),
              ZE_RESULT_SUCCESS)
        << bytes;
  }
  EXPECT_NE(zeCommandListAppendMemoryFill(list, memory + 50, &pattern, 1, 51, nullptr, 0, nullptr),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandListAppendMemoryFill(list, memory + 50, &pattern, 1, 50, nullptr, 0, nullptr),
            ZE_RESULT_SUCCESS);
  Free(memory);
}

TEST_F(CommandTest, RegionsAreCopiedInTwoDimensions) {
  uint8_t* const from = Host(100);
  uint8_t* const to = Device(100);
  for (uint8_t i = 0; i < 100; ++i) from[i] = i;
  std::memset(to, 0, 100);
  // 3 x 2 bytes at (1, 2) of rows of 10, to (4, 0) of rows of 20.
  const ze_copy_region_t source = {1, 2, 0, 3, 2, 1};
  const ze_copy_region_t target = {4, 0, 0, 3, 2, 1};
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListAppendMemoryCopyRegion(list, to, &target, 20, 0, from, &source, 10, 0,
                                                nullptr, 0, nullptr),
            ZE_RESULT_SUCCESS);
  ASSERT_EQ(Execute(list), ZE_RESULT_SUCCESS);
  std::vector<uint8_t> expected(100, 0);
  for (size_t row = 0; row < 2; ++row)
    for (size_t column = 0; column < 3; ++column)
      expected[row * 20 + 4 + column] = static_cast<uint8_t>((row + 2) * 10 + 1 + column);
  EXPECT_EQ(std::vector<uint8_t>(to, to + 100), expected);
  Free(from);
  Free(to);
}

TEST_F(CommandTest, ARegionThatLeavesItsAllocationIsNotCopied) {
  uint8_t* const memory = Device(4096);
  const ze_copy_region_t inside = {0, 0, 0, 64, 4, 1};
  for (const ze_copy_region_t& outside :
       {ze_copy_region_t{0, 61, 0, 64, 4, 1}, ze_copy_region_t{1, 60, 0, 64, 4, 1},
        ze_copy_region_t{UINT32_MAX, UINT32_MAX, 0, 64, 4, 1}}) {
    const ze_command_list_handle_t list = NewList();
    const ze_result_t appended = zeCommandListAppendMemoryCopyRegion(
        list, memory, &outside, 64, 0, memory, &inside, 64, 0, nullptr, 0, nullptr);
    EXPECT_TRUE(appended != ZE_RESULT_SUCCESS || Execute(list) == ZE_RESULT_ERROR_DEVICE_LOST);
  }
  Free(memory);
}

TEST_F(CommandTest, EndpointsOutsideOfLevelZeroMemoryAreUninitializedAtAppend) {
  uint8_t* const memory = Device(64);
  std::vector<uint8_t> plain(64);
  const ze_command_list_handle_t list = NewList();
  EXPECT_EQ(zeCommandListAppendMemoryCopy(list, memory, plain.data(), 64, nullptr, 0, nullptr),
            ZE_RESULT_ERROR_UNINITIALIZED);
  EXPECT_EQ(zeCommandListAppendMemoryCopy(list, plain.data(), memory, 64, nullptr, 0, nullptr),
            ZE_RESULT_ERROR_UNINITIALIZED);
  Free(memory);
}

TEST_F(CommandTest, ACopyOutOfRangeAppendsAndLosesTheDeviceWhenExecuted) {
  uint8_t* const from = Host(8192);
  uint8_t* const to = Device(4096);
  EXPECT_EQ(Copy(to, from, 4097), ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(Copy(to, from, SIZE_MAX), ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(Copy(to, from, 4096), ZE_RESULT_SUCCESS) << "later jobs run";
  Free(from);
  Free(to);
}

TEST_F(CommandTest, AnOpenListIsNotExecuted) {
  EXPECT_EQ(Submit(NewList(), nullptr), ZE_RESULT_ERROR_UNINITIALIZED);
}

TEST_F(CommandTest, ClosingTwiceSucceeds) {
  const ze_command_list_handle_t list = NewList();
  EXPECT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
}

TEST_F(CommandTest, AppendingToAClosedListIsNotAvailableUntilItIsReset) {
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandListAppendBarrier(list, nullptr, 0, nullptr), ZE_RESULT_ERROR_NOT_AVAILABLE);
  ASSERT_EQ(zeCommandListReset(list), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandListAppendBarrier(list, nullptr, 0, nullptr), ZE_RESULT_SUCCESS);
}

TEST_F(CommandTest, AListIsExecutedAgainAndAgain) {
  uint8_t* const memory = Device(16);
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListAppendMemoryCopy(list, memory + 1, memory, 8, nullptr, 0, nullptr),
            ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  memory[0] = 9;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Submit(list, nullptr), ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeCommandQueueSynchronize(queue_, kForever), ZE_RESULT_SUCCESS);
  EXPECT_EQ(memory[3], 9);
  EXPECT_EQ(memory[4], 0);
  Free(memory);
}

TEST_F(CommandTest, AnEventThatNoSubmittedListSignalsIsNotReadyAtOnce) {
  const ze_event_handle_t event = NewEvents(1)[0];
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListAppendSignalEvent(list, event), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeEventHostSynchronize(event, kForever), ZE_RESULT_NOT_READY);
}

TEST_F(CommandTest, AnEventIsWaitedForWhileASubmittedListWillSignalIt) {
  const std::vector<ze_event_handle_t> events = NewEvents(2);
  const ze_command_list_handle_t list = NewList();
  ze_event_handle_t gate = events[0];
  ASSERT_EQ(zeCommandListAppendBarrier(list, events[1], 1, &gate), ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  ASSERT_EQ(Submit(list, nullptr), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeEventHostSynchronize(events[1], kMillisecond), ZE_RESULT_NOT_READY);
  std::thread signaler([&] { zeEventHostSignal(events[0]); });
  EXPECT_EQ(zeEventHostSynchronize(events[1], kForever), ZE_RESULT_SUCCESS);
  signaler.join();
  EXPECT_EQ(zeEventQueryStatus(events[1]), ZE_RESULT_SUCCESS);
}

TEST_F(CommandTest, ListsResetEvents) {
  const ze_event_handle_t event = NewEvents(1)[0];
  ASSERT_EQ(zeEventHostSignal(event), ZE_RESULT_SUCCESS);
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListAppendEventReset(list, event), ZE_RESULT_SUCCESS);
  ASSERT_EQ(Execute(list), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeEventQueryStatus(event), ZE_RESULT_NOT_READY);
}

TEST_F(CommandTest, CopiesCanBeDelayed) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_COPY_DELAY_US", "30000"}});
  uint8_t* const memory = Device(64);
  EXPECT_GT(Seconds([&] { EXPECT_EQ(Copy(memory, memory + 32, 32), ZE_RESULT_SUCCESS); }), 0.029);
  Free(memory);
}

}  // namespace
}  // namespace npubank
