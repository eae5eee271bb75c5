#include "npubank/compiler_stub/planner/validator.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace npubank {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Problem TwoBuffers() {
  Problem problem;
  problem.buffers.push_back({.id = "a", .lower = 0, .upper = 4, .size = 100});
  problem.buffers.push_back({.id = "b", .lower = 3, .upper = 6, .size = 50});
  return problem;
}

std::string WhyNot(const Problem& problem, const std::vector<uint64_t>& offsets) {
  const absl::Status status = Validate(problem, offsets);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  return std::string(status.message());
}

TEST(Validator, AcceptsBuffersSideBySide) {
  EXPECT_TRUE(Validate(TwoBuffers(), {0, 100}).ok());
  EXPECT_TRUE(Validate(TwoBuffers(), {50, 0}).ok());
}

TEST(Validator, NamesTheTwoThatCollide) {
  const std::string why = WhyNot(TwoBuffers(), {0, 99});
  EXPECT_THAT(why, AllOf(HasSubstr("'a' alive [0, 4) at bytes [0, 100)"),
                         HasSubstr("'b' alive [3, 6) at bytes [99, 149)")));
}

TEST(Validator, SeesOneInsideTheOther) {
  WhyNot(TwoBuffers(), {0, 20});
  WhyNot(TwoBuffers(), {20, 0});
}

TEST(Validator, LetsADeadBuffersBytesBeReused) {
  Problem problem = TwoBuffers();
  problem.buffers[1].lower = 4;
  EXPECT_TRUE(Validate(problem, {0, 0}).ok());
}

TEST(Validator, KeepsParallelBuffersApart) {
  Problem problem = TwoBuffers();
  problem.buffers[1].lower = 4;
  for (const auto& pair : {std::make_pair(0, 1), std::make_pair(1, 0)}) {
    problem.parallel = ParallelPairs(2);
    problem.parallel.Add(pair.first, pair.second);
    EXPECT_THAT(WhyNot(problem, {0, 0}), HasSubstr("may run in parallel"));
    EXPECT_TRUE(Validate(problem, {0, 100}).ok());
  }
}

TEST(Validator, RefusesAMisalignedOffset) {
  Problem problem = TwoBuffers();
  problem.buffers[1].alignment = 64;
  EXPECT_THAT(WhyNot(problem, {0, 100}), HasSubstr("'b' at 100 is not aligned to 64"));
  EXPECT_TRUE(Validate(problem, {0, 128}).ok());
}

TEST(Validator, RefusesABufferBeyondTheCapacity) {
  Problem problem = TwoBuffers();
  problem.capacity = 150;
  EXPECT_TRUE(Validate(problem, {0, 100}).ok());
  problem.capacity = 149;
  EXPECT_THAT(WhyNot(problem, {0, 100}), HasSubstr("'b' of 50 bytes at 100 ends beyond"));
  WhyNot(TwoBuffers(), {0, std::numeric_limits<int64_t>::max()});
  WhyNot(TwoBuffers(), {0, std::numeric_limits<uint64_t>::max()});  // the end wraps
  problem.capacity = std::numeric_limits<uint64_t>::max();
  WhyNot(problem, {0, std::numeric_limits<uint64_t>::max() - 49});
  EXPECT_TRUE(Validate(problem, {0, std::numeric_limits<uint64_t>::max() - 50}).ok());
}

TEST(Validator, LetsEmptyBuffersLieAnywhere) {
  Problem problem = TwoBuffers();
  problem.buffers[1].size = 0;
  EXPECT_TRUE(Validate(problem, {0, 50}).ok());
}

TEST(Validator, RefusesProblemsAndOffsetsThatMakeNoSense) {
  EXPECT_EQ(Validate(TwoBuffers(), {0}).code(), absl::StatusCode::kInvalidArgument);
  const auto refused = [](auto change, absl::string_view why) {
    Problem problem = TwoBuffers();
    change(&problem);
    const absl::Status status = Validate(problem, {0, 100});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(why)));
  };
  refused([](Problem* p) { p->buffers[1].upper = 3; }, "'b' lives in [3, 3)");
  refused([](Problem* p) { p->buffers[0].lower = -1; }, "'a' lives in [-1, 4)");
  refused([](Problem* p) { p->buffers[0].size = std::numeric_limits<uint64_t>::max(); },
          "with buffer 'a'");
  refused([](Problem* p) { p->buffers[0].alignment = 3; }, "'a' has alignment 3");
  refused([](Problem* p) { p->buffers[0].alignment = 0; }, "'a' has alignment 0");
  refused([](Problem* p) { p->buffers[1].size = std::numeric_limits<int64_t>::max() - 100; },
          "pass 2^63");
  refused([](Problem* p) { p->parallel = ParallelPairs(3); },
          "parallel pairs of 3 buffers, where there are 2");
  refused([](Problem* p) { p->parallel = ParallelPairs((1 << 15) + 1); },
          "at most 32768 are planned in parallel");
}

}  // namespace
}  // namespace npubank
