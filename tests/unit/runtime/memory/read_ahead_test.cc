#include "npubank/runtime/memory/read_ahead.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tests/support/gate.h"
#include "npubank/tests/support/system/no_threads.h"
#include "npubank/tests/support/temporary_file.h"

namespace npubank {
namespace {

class ReadAheadTest : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 20 << 20;

  void SetUp() override {
    auto source = Source::OpenFile(file_.path());
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
    auto mapping = source_->View(0, kBytes);
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    mapping_ = *mapping;
  }

  testing::TemporaryFile file_{std::vector<std::byte>(kBytes)};
  std::shared_ptr<Source> source_;
  absl::Span<const std::byte> mapping_;
};

TEST_F(ReadAheadTest, AllThatIsAddedIsAskedFor) {
  ReadAhead read_ahead;
  read_ahead.Finish();
  EXPECT_EQ(read_ahead.bytes(), 0u);
  read_ahead.Add(mapping_.subspan(100, 5000));
  read_ahead.Add({});
  read_ahead.Add(mapping_.subspan(4096, kBytes - 5000));
  read_ahead.Finish();
  EXPECT_EQ(read_ahead.bytes(), kBytes);
}

ReadAhead::AskForPages Through(Gate& gate) {
  return [&gate](absl::Span<const std::byte>) { gate.Pass(); };
}

TEST_F(ReadAheadTest, ADropForgetsWhatWaitsAndReturnsWhenTheStepAtWorkIsDone) {
  Gate gate;
  ReadAhead read_ahead(Through(gate));
  for (int i = 0; i < 50; ++i) read_ahead.Add(mapping_);
  gate.AwaitArrival();
  std::atomic<bool> returned{false};
  std::thread dropping([&] {
    read_ahead.Drop(mapping_);
    returned = true;
  });
  while (read_ahead.waiting_bytes() > 0) std::this_thread::yield();
  EXPECT_FALSE(returned) << "the pages of a step at work may not be unmapped";
  gate.Open();
  dropping.join();
  const uint64_t bytes = read_ahead.bytes();
  EXPECT_GT(bytes, 0u);
  EXPECT_LT(bytes, kBytes) << "a step is a part of the mapping";
  read_ahead.Finish();
  EXPECT_EQ(read_ahead.bytes(), bytes);
}

TEST_F(ReadAheadTest, DroppingOneMappingDoesNotWaitForTheOthers) {
  const testing::TemporaryFile other_file{std::vector<std::byte>(4096)};
  const auto other = Source::OpenFile(other_file.path()).value();
  Gate gate;
  ReadAhead read_ahead(Through(gate));
  read_ahead.Add(mapping_);
  gate.AwaitArrival();
  read_ahead.Drop(other->View(0, 4096).value());  // returns while the step stands at the gate
  read_ahead.Drop({});
  EXPECT_EQ(read_ahead.bytes(), 0u);
  gate.Open();
  read_ahead.Finish();
  EXPECT_EQ(read_ahead.bytes(), kBytes);
}

TEST_F(ReadAheadTest, WithoutAThreadNothingIsReadAheadUntilThereIsOne) {
  ReadAhead read_ahead;
  {
    const NoThreads none;
    read_ahead.Add(mapping_);
    read_ahead.Finish();
    EXPECT_EQ(read_ahead.bytes(), 0u);
    read_ahead.Drop(mapping_);
  }
  read_ahead.Add(mapping_);
  read_ahead.Finish();
  EXPECT_EQ(read_ahead.bytes(), kBytes);
}

TEST_F(ReadAheadTest, AFileThatShrankDoesNoHarm) {
  ASSERT_EQ(truncate(file_.path().c_str(), 4096), 0);
  ReadAhead read_ahead;
  read_ahead.Add(mapping_);
  read_ahead.Finish();
  EXPECT_EQ(read_ahead.bytes(), kBytes);
}

TEST_F(ReadAheadTest, TheEndDropsWhatHasNotBegun) {
  ReadAhead read_ahead;
  for (int i = 0; i < 1000; ++i) read_ahead.Add(mapping_);
}

}  // namespace
}  // namespace npubank
