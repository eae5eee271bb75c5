#include "npubank/bank/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace npubank {
namespace {

using ::testing::HasSubstr;
using Fault = HostMemory::Fault;

absl::Status Count(uint64_t offset, absl::Span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(offset + i);
  return absl::OkStatus();
}

TEST(HostMemory, CountsPagesAndGivesThemBack) {
  HostMemory memory;
  {
    auto first = memory.Allocate(1, "first").value();
    auto second = memory.Allocate(4097, "second").value();
    EXPECT_EQ(first->bytes(), 1u);
    EXPECT_EQ(first->reserved_bytes(), 4096u);
    EXPECT_EQ(memory.Usage().live_bytes, 3 * 4096u);
    EXPECT_EQ(memory.Usage().live_allocations, 2u);
  }
  EXPECT_EQ(memory.Usage().live_bytes, 0u);
  EXPECT_EQ(memory.Usage().live_allocations, 0u);
  EXPECT_EQ(memory.Usage().peak_bytes, 3 * 4096u);
}

TEST(HostMemory, AnAllocationMayOutliveTheObject) {
  auto memory = std::make_unique<HostMemory>();
  auto allocation = memory->Allocate(10, "kept").value();
  memory.reset();
  std::memset(allocation->host_bytes().data(), 1, 10);
}

TEST(HostMemory, WritesTheSameInOnePieceOrInMany) {
  for (bool host_writable : {true, false}) {
    HostMemory memory({.host_writable = host_writable, .staging_bytes = 16});
    auto allocation = memory.Allocate(100, "counted").value();
    EXPECT_EQ(allocation->host_bytes().empty(), !host_writable);
    ASSERT_TRUE(memory.Write(*allocation, Count).ok());
    std::vector<std::byte> read(60);
    ASSERT_TRUE(memory.Read(*allocation, 40, absl::MakeSpan(read)).ok());
    for (int i = 0; i < 60; ++i) EXPECT_EQ(read[i], static_cast<std::byte>(40 + i));
  }
}

TEST(HostMemory, AnErrorOfTheProducerComesBackAsItIs) {
  HostMemory memory;
  auto allocation = memory.Allocate(8, "x").value();
  const absl::Status status = memory.Write(
      *allocation, [](uint64_t, absl::Span<std::byte>) { return absl::DataLossError("gone"); });
  EXPECT_EQ(status, absl::DataLossError("gone"));
}

TEST(HostMemory, RefusesWhatItHasNoRoomForAndRecovers) {
  HostMemory memory({.capacity = 8192});
  auto first = memory.Allocate(4096, "first").value();
  const auto refused = memory.Allocate(4097, "too large");
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("'too large'"));
  EXPECT_EQ(memory.Usage().live_bytes, 4096u);
  first.reset();
  EXPECT_TRUE(memory.Allocate(4097, "fits now").ok());
}

TEST(HostMemory, RefusesSizesThatCannotBe) {
  HostMemory memory;
  EXPECT_TRUE(absl::IsInvalidArgument(memory.Allocate(0, "nothing").status()));
  EXPECT_TRUE(absl::IsResourceExhausted(memory.Allocate(~uint64_t{0}, "all").status()));
  EXPECT_TRUE(absl::IsResourceExhausted(memory.Allocate(~uint64_t{0} / 2, "half").status()));
  EXPECT_EQ(memory.Usage().live_bytes, 0u);
}

TEST(HostMemory, ReadsNothingBeyondTheEnd) {
  HostMemory memory;
  auto allocation = memory.Allocate(8, "x").value();
  std::vector<std::byte> out(8);
  EXPECT_TRUE(absl::IsOutOfRange(memory.Read(*allocation, 1, absl::MakeSpan(out))));
  EXPECT_TRUE(absl::IsOutOfRange(memory.Read(*allocation, ~uint64_t{0}, absl::MakeSpan(out))));
}

TEST(HostMemory, AFaultStrikesTheNthCallOnceOrForEver) {
  HostMemory memory;
  memory.InjectFault({.call = Fault::Call::kAllocate, .nth = 2});
  EXPECT_TRUE(memory.Allocate(1, "first").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(memory.Allocate(1, "second").status()));
  EXPECT_TRUE(memory.Allocate(1, "third").ok());
  memory.InjectFault({.call = Fault::Call::kAllocate, .nth = 1, .forever = true});
  EXPECT_FALSE(memory.Allocate(1, "fourth").ok());
  EXPECT_FALSE(memory.Allocate(1, "fifth").ok());
  memory.InjectFault({.call = Fault::Call::kAllocate});
  EXPECT_TRUE(memory.Allocate(1, "sixth").ok());
}

}  // namespace
}  // namespace npubank
