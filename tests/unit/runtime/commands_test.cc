#include "npubank/runtime/level_zero/commands.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/buffer.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tests/support/npu_switches.h"

namespace npubank::level_zero {
namespace {

constexpr size_t kBytes = 4096;

static_assert(std::is_move_constructible_v<CommandList>);
static_assert(!std::is_move_assignable_v<CommandList>,
              "a list that is in flight would go without having been awaited");

// A list that copies some bytes, and its queue.
struct CopyJob {
  Buffer from;
  Buffer to;
  CommandQueue queue;
  CommandList list;

  static absl::StatusOr<CopyJob> Create(const std::shared_ptr<Device>& device) {
    NPUBANK_ASSIGN_OR_RETURN(Buffer from, Buffer::AllocateHost(device, kBytes, "from"));
    NPUBANK_ASSIGN_OR_RETURN(Buffer to, Buffer::AllocateHost(device, kBytes, "to"));
    NPUBANK_ASSIGN_OR_RETURN(CommandQueue queue, CommandQueue::Create(device));
    NPUBANK_ASSIGN_OR_RETURN(CommandList list, CommandList::Create(queue));
    NPUBANK_RETURN_IF_ERROR(list.AppendCopy(to.address(), from.address(), kBytes));
    NPUBANK_RETURN_IF_ERROR(list.Close());
    return CopyJob{std::move(from), std::move(to), std::move(queue), std::move(list)};
  }
  absl::Status Submit(int value) {
    std::memset(from.address(), value, kBytes);
    return queue.Submit(list);
  }
  std::byte Arrived() const { return *static_cast<const volatile std::byte*>(to.address()); }
};

class CommandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = Device::Open(DeviceChoice::kSoftware);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    software_ = device_->software();
  }
  void TearDown() override {
    software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
    ExpectNothingLeft(*software_, "at the end");
  }
  Buffer Host() {
    auto buffer = Buffer::AllocateHost(device_, kBytes, "bytes");
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return *std::move(buffer);
  }

  const NpuSwitches slow_{{{"NPUBANK_NPU_COPY_DELAY_US", "30000"}}};
  std::shared_ptr<Device> device_;
  const SoftwareNpuExtension* software_ = nullptr;
};

TEST_F(CommandsTest, EveryObjectOfTheDriverIsNamedWhileItLives) {
  const auto before = LiveObjects();
  EXPECT_EQ(before.at("Level Zero context"), 1u);
  {
    const Buffer buffer = Host();
    auto queue = CommandQueue::Create(device_);
    ASSERT_TRUE(queue.ok()) << queue.status();
    const auto list = CommandList::Create(*queue);
    ASSERT_TRUE(list.ok()) << list.status();
    const auto now = LiveObjects();
    for (const char* one : {"Level Zero host allocation 'bytes'", "Level Zero command queue",
                            "Level Zero command list", "Level Zero fence"}) {
      EXPECT_TRUE(now.contains(one) && now.at(one) == 1) << one;
    }
  }
  EXPECT_EQ(LiveObjects(), before);
}

TEST_F(CommandsTest, AWaitThatFailedHasWaitedAllTheSame) {
  auto job = CopyJob::Create(device_);
  ASSERT_TRUE(job.ok()) << job.status();
  for (const int value : {1, 2, 3}) {
    ASSERT_TRUE(job->Submit(value).ok());
    software_->pfnFailCall("", 1, 1, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
    EXPECT_EQ(job->list.Wait().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(job->Arrived(), std::byte(value)) << "the copy was still under way";
    software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
  }
}

TEST_F(CommandsTest, AWaitThatASignalInterruptsGoesOn) {
  auto job = CopyJob::Create(device_);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(job->Submit(9).ok());
  // What a driver's wait returns then.
  software_->pfnFailCall("zeFenceHostSynchronize", 1, 0, ZE_RESULT_NOT_READY);
  const absl::Status status = job->list.Wait();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(job->Arrived(), std::byte{9});
}

TEST_F(CommandsTest, AListThatIsDroppedInFlightWaitsForItsJobWhateverFails) {
  auto job = CopyJob::Create(device_);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(job->Submit(7).ok());
  {
    const CommandList dropped = std::move(job->list);
    software_->pfnFailCall("", 1, 1, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
  }
  EXPECT_EQ(job->Arrived(), std::byte{7});
  EXPECT_EQ(DriverStatistics(*software_).live_lists, 0u);
}

}  // namespace
}  // namespace npubank::level_zero
