// Every entry of every table that the driver exports, called with wrong things: null, wild, stale
// and doubled handles, handles of another kind, sizes up to SIZE_MAX; by one thread and by eight with
// the same handles. Nothing may crash, and in the end nothing is left. Straight at the driver's
// tables: a loader that wraps handles follows whatever it is given.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "npubank/tests/conformance/driver/caller.h"
#include "npubank/tests/conformance/driver/entries.h"
#include "npubank/tests/conformance/driver/fixture.h"
#include "npubank/tests/conformance/driver/pool.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank {
namespace {

constexpr int kCallsOfEachEntry = 3000;

class AbuseTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    NPUBANK_NEEDS_SOFTWARE_NPU();  // a real driver trusts its handles
    // Room that abuse may take, and copies that are no race between queues.
    SetSwitches({{"NPUBANK_NPU_CAPACITY", "64M"},
                 {"NPUBANK_NPU_VIRTUAL_MEMORY", "1"},
                 {"NPUBANK_NPU_IMPORT", "1"}});
  }
};

// Signals all events of a pool again and again: waiting is not what is tested.
class Signaler {
 public:
  explicit Signaler(const DriverPool& pool)
      : thread_([this, &pool] {
          while (!stopping_) {
            pool.SignalEvents();
            std::this_thread::yield();
          }
        }) {}
  ~Signaler() {
    stopping_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

TEST_F(AbuseTest, NothingThatIsCalledWithWrongThingsCrashesOrIsLeftBehind) {
  DriverPool pool(context_, device_, driver_);
  const Signaler signaler(pool);
  DriverCaller caller(pool, PrintedSeed());
  const std::vector<DriverEntry> entries = ExportedEntries(graphs_);
  ASSERT_GT(entries.size(), 100u);
  for (int i = 0; i < Repetitions(kCallsOfEachEntry); ++i)
    for (const DriverEntry& entry : entries) entry.call(caller);
  pool.DestroyAll();
}

TEST_F(AbuseTest, EightThreadsMayDoSoWithTheSameHandles) {
  DriverPool pool(context_, device_, driver_);
  const std::vector<DriverEntry> entries = ExportedEntries(graphs_);
  const Signaler signaler(pool);
  const uint64_t seed = PrintedSeed();
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      DriverCaller caller(pool, seed + number);
      for (int i = 0; i < Repetitions(kCallsOfEachEntry / 4); ++i)
        for (const DriverEntry& entry : entries) entry.call(caller);
    });
  }
  for (std::thread& thread : threads) thread.join();
  pool.DestroyAll();
}

// What a well-behaved host does, from eight threads at once.
TEST_F(AbuseTest, EightThreadsCreateSubmitAndDestroy) {
  constexpr int kRounds = 100;
  constexpr size_t kBytes = 4096;
  const auto work = [&](uint8_t thread) {
    for (int round = 0; round < kRounds; ++round) {
      void* memory = nullptr;
      ASSERT_EQ(TryAllocate(ZE_MEMORY_TYPE_HOST, 2 * kBytes, &memory), ZE_RESULT_SUCCESS);
      auto* const bytes = static_cast<uint8_t*>(memory);
      const auto mark = static_cast<uint8_t>(round + thread);
      std::memset(bytes, mark, kBytes);
      ze_command_queue_desc_t queue_desc = {};
      queue_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
      ze_command_queue_handle_t queue = nullptr;
      ASSERT_EQ(zeCommandQueueCreate(context_, device_, &queue_desc, &queue), ZE_RESULT_SUCCESS);
      const ze_fence_desc_t fence_desc = {ZE_STRUCTURE_TYPE_FENCE_DESC, nullptr, 0};
      ze_fence_handle_t fence = nullptr;
      ASSERT_EQ(zeFenceCreate(queue, &fence_desc, &fence), ZE_RESULT_SUCCESS);
      const ze_command_list_desc_t list_desc = {ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
      ze_command_list_handle_t list = nullptr;
      ASSERT_EQ(zeCommandListCreate(context_, device_, &list_desc, &list), ZE_RESULT_SUCCESS);
      ASSERT_EQ(
          zeCommandListAppendMemoryCopy(list, bytes + kBytes, bytes, kBytes, nullptr, 0, nullptr),
          ZE_RESULT_SUCCESS);
      ASSERT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
      ASSERT_EQ(zeCommandQueueExecuteCommandLists(queue, 1, &list, fence), ZE_RESULT_SUCCESS);
      ASSERT_EQ(zeCommandListDestroy(list), ZE_RESULT_SUCCESS) << "in flight or not";
      ASSERT_EQ(zeFenceHostSynchronize(fence, kForever), ZE_RESULT_SUCCESS);
      ASSERT_EQ(bytes[2 * kBytes - 1], mark);
      ASSERT_EQ(zeFenceDestroy(fence), ZE_RESULT_SUCCESS);
      ASSERT_EQ(zeCommandQueueDestroy(queue), ZE_RESULT_SUCCESS);
      ASSERT_EQ(zeMemFree(context_, memory), ZE_RESULT_SUCCESS);
    }
  };
  std::vector<std::thread> threads;
  for (uint8_t number = 0; number < 8; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace npubank
