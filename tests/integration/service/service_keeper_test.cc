// npubankd under a service manager that keeps its memory: what was handed out once is transformed by no
// daemon after it, however that one was killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "npubank/tests/integration/service/service_programs.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ServiceKeeperTest : public ServiceProgramsTest {
 protected:
  void StartKeeper() { StartDaemon({NPUBANK_BIN "/npubank-keeper", "--socket", socket_, "--"}); }
  // The daemon itself; who keeps for it starts the next.
  uint32_t KillDaemon() {
    const uint32_t pid = Daemon().pid;
    EXPECT_EQ(kill(static_cast<pid_t>(pid), SIGKILL), 0);
    return pid;
  }
};

TEST_F(ServiceKeeperTest, AKilledDaemonsSuccessorTransformsNothingThatWasHandedOut) {
  StartKeeper();
  const Json first = Report(RunProgram(BankRun(socket_)));
  const service::State before = Daemon();
  EXPECT_GT(before.transformations, 0u);
  for (const service::SegmentState& segment : before.segments) EXPECT_TRUE(segment.kept);
  const uint32_t pid = KillDaemon();
  const Json second = Report(RunProgram(BankRun(socket_)));
  EXPECT_EQ(second["ids"], first["ids"]);
  EXPECT_EQ(second["transformations"], 0);
  EXPECT_EQ(second["service_hits"], first["service_hits"]);
  EXPECT_TRUE(second["service_notices"].empty()) << second["service_notices"];
  const service::State after = Daemon();
  EXPECT_NE(after.pid, pid);
  EXPECT_EQ(after.evaluations, 0u);
  EXPECT_EQ(after.adopted, before.evaluations);
  EXPECT_EQ(after.memory_bytes, before.memory_bytes);
  EXPECT_THAT(after.audit, IsEmpty());
  EXPECT_THAT(after.kept_problems, IsEmpty());
}

TEST_F(ServiceKeeperTest, ADaemonThatIsKilledAtAnyMomentIsFollowedByOneThatHasAllOfIt) {
  const uint64_t seed = PrintedSeed();
  std::mt19937_64 random(seed);
  StartKeeper();
  const Json alone = Report(RunProgram(BankRun("off")));
  Report(RunProgram(BankRun(socket_)));
  const uint64_t published = Daemon().evaluations;
  for (int round = 0; round < Repetitions(100, /*quick=*/5); ++round) {
    SCOPED_TRACE(round);
    std::thread killer([this, wait = random() % 120] {
      std::this_thread::sleep_for(std::chrono::milliseconds(wait));
      KillDaemon();
    });
    const Json report = Report(RunProgram(BankRun(socket_, /*tokens=*/60)));
    killer.join();
    ASSERT_EQ(
        Json(std::vector<Json>(report["ids"].begin(), report["ids"].begin() + alone["ids"].size())),
        alone["ids"]);
    const service::State state = Daemon();
    ASSERT_EQ(state.transformations, 0u);
    ASSERT_EQ(state.adopted, published) << "each of them with the hash of its bytes";
    ASSERT_THAT(state.kept_problems, IsEmpty());
    ASSERT_THAT(state.audit, IsEmpty());
  }
}

TEST_F(ServiceKeeperTest,
       ADaemonThatIsKilledWhileItLoadsForTheFirstTimeHasWhatItHandedOutAndNoMore) {
  const uint64_t seed = PrintedSeed();
  std::mt19937_64 random(seed);
  const Json alone = Report(RunProgram(BankRun("off")));
  for (int round = 0; round < Repetitions(50, /*quick=*/3); ++round) {
    SCOPED_TRACE(round);
    StartKeeper();
    std::thread killer([this, wait = random() % 150] {
      std::this_thread::sleep_for(std::chrono::milliseconds(wait));
      KillDaemon();
    });
    ASSERT_EQ(Report(RunProgram(BankRun(socket_)))["ids"], alone["ids"]);
    killer.join();
    ASSERT_EQ(Report(RunProgram(BankRun(socket_)))["ids"], alone["ids"]);
    ASSERT_THAT(Daemon().audit, IsEmpty());
    EXPECT_EQ(daemon_->End(SIGTERM), 0);
  }
}

TEST_F(ServiceKeeperTest, AnEndThatWasAskedForEndsTheKeeperToo) {
  StartKeeper();
  EXPECT_EQ(daemon_->End(SIGTERM), 0);
  EXPECT_NE(access(socket_.c_str(), F_OK), 0) << "nothing is left";
}

TEST_F(ServiceKeeperTest, AKeeperThatIsKilledLeavesNoDaemonBehind) {
  StartKeeper();
  EXPECT_EQ(daemon_->End(SIGKILL), 128 + SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !service::BankClient::Connect(socket_).ok(); }));
}

TEST_F(ServiceKeeperTest, AProgramThatDoesNotComeUpIsNotStartedForEver) {
  const ProgramResult result =
      RunProgram({NPUBANK_BIN "/npubank-keeper", "--socket", socket_, "--", "/bin/false"});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.error, HasSubstr("does not come up"));
}

}  // namespace
}  // namespace npubank
