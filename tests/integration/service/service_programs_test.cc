// npubankd and bank-run as programs: one copy of the weights for all of them, and what happens when one is
// killed.
#include "npubank/tests/integration/service/service_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "npubank/tests/support/repetitions.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ServiceProgramsTest, TheSecondProgramTransformsNothingAndSaysTheSame) {
  StartDaemon();
  const Json alone = Report(RunProgram(BankRun("off")));
  const Json first = Report(RunProgram(BankRun(socket_)));
  const uint64_t evaluations = Daemon().evaluations;
  const Json second = Report(RunProgram(BankRun(socket_)));
  EXPECT_EQ(first["ids"], alone["ids"]);
  EXPECT_EQ(second["ids"], alone["ids"]);
  EXPECT_GT(alone["transformations"], 0);
  for (const Json* report : {&first, &second}) {
    EXPECT_EQ((*report)["transformations"], 0);
    EXPECT_EQ((*report)["device_weight_bytes"], 0) << "no weight of its own";
    EXPECT_GT((*report)["service_bytes"], 0);
    EXPECT_THAT((*report)["service"].get<std::string>(), HasSubstr(socket_));
    EXPECT_TRUE((*report)["service_notices"].empty()) << (*report)["service_notices"];
    EXPECT_EQ((*report)["audit"]["clean"], true);
    EXPECT_EQ((*report)["audit"]["upstream_bytes"], (*report)["service_bytes"]);
  }
  const service::State daemon = Daemon();
  EXPECT_EQ(daemon.evaluations, evaluations);
  EXPECT_THAT(daemon.audit, IsEmpty());
  EXPECT_EQ(daemon.clients.size(), 1u) << "who asks";
}

TEST_F(ServiceProgramsTest, ADaemonWithMountsOfItsOwnServesAllTheSame) {
  const std::vector<std::string> apart = {"/usr/bin/unshare", "--mount"};
  std::vector<std::string> trial = apart;
  trial.push_back("/bin/true");
  if (RunProgram(trial).exit_status != 0)
    GTEST_SKIP() << "this user may not have mounts of its own";
  StartDaemon(apart);
  const Json report = Report(RunProgram(BankRun(socket_)));
  EXPECT_GT(report["service_hits"], 0);
  EXPECT_TRUE(report["service_notices"].empty()) << report["service_notices"];
}

TEST_F(ServiceProgramsTest, ADriverThatCannotImportLoadsAsBeforeAndSaysWhy) {
  StartDaemon();
  setenv("NPUBANK_NPU_IMPORT", "0", 1);
  const Json alone = Report(RunProgram(BankRun("off")));
  const Json beside = Report(RunProgram(BankRun(socket_)));
  EXPECT_EQ(beside["ids"], alone["ids"]);
  EXPECT_EQ(beside["device_peak_bytes"], alone["device_peak_bytes"]);
  EXPECT_EQ(beside["service_hits"], 0);
  ASSERT_EQ(beside["service_notices"].size(), 1u);
  EXPECT_THAT(beside["service_notices"][0].get<std::string>(), HasSubstr("cannot import"));
  EXPECT_EQ(Daemon().evaluations, 0u);
}

TEST_F(ServiceProgramsTest, AutoUsesTheDaemonAtItsUsualPlaceAndSaysWhenThereIsNone) {
  setenv("NPUBANK_SERVICE", socket_.c_str(), 1);
  const Json without = Report(RunProgram(BankRun("auto")));
  EXPECT_THAT(without["service"].get<std::string>(), HasSubstr("none at "));
  StartDaemon();
  const Json with = Report(RunProgram(BankRun("auto")));
  unsetenv("NPUBANK_SERVICE");
  EXPECT_GT(with["service_hits"], 0);
  EXPECT_EQ(with["ids"], without["ids"]);
  EXPECT_EQ(RunProgram(BankRun(folder_.File("nowhere"))).exit_status, 1) << "a path is meant";
}

TEST_F(ServiceProgramsTest, OneDaemonListensAndWhatAKilledOneLeftStopsNobody) {
  StartDaemon();
  const ProgramResult second = RunProgram({NPUBANK_BIN "/npubankd", "--socket", socket_});
  EXPECT_EQ(second.exit_status, 1);
  EXPECT_THAT(second.error, HasSubstr("listens"));
  EXPECT_EQ(daemon_->End(SIGKILL), 128 + SIGKILL);
  StartDaemon();
  EXPECT_EQ(daemon_->End(SIGTERM), 0);
  EXPECT_NE(access(socket_.c_str(), F_OK), 0) << "an end that was asked for leaves nothing";
}

TEST_F(ServiceProgramsTest, ADaemonThatIsKilledAtAnyMomentCostsNobodyAToken) {
  const uint64_t seed = PrintedSeed();
  std::mt19937_64 random(seed);
  const Json alone = Report(RunProgram(BankRun("off")));
  for (int round = 0; round < Repetitions(100, /*quick=*/4); ++round) {
    StartDaemon();
    std::thread killer([this, wait = random() % 150] {
      std::this_thread::sleep_for(std::chrono::milliseconds(wait));
      daemon_->End(SIGKILL);
    });
    const ProgramResult result = RunProgram(BankRun(socket_));
    killer.join();
    // Before it had connected there was none at the path that it was given.
    if (result.exit_status == 1) {
      EXPECT_THAT(result.error, HasSubstr(socket_));
    } else {
      EXPECT_EQ(Report(result)["ids"], alone["ids"]);
    }
  }
}

// Large enough that making it takes a while: an eighth of a second.
TEST_F(ServiceProgramsTest, OfEightThatStartTogetherTheFirstMayBeKilledAndEachTensorIsMadeOnce) {
  const uint64_t seed = PrintedSeed();
  std::mt19937_64 random(seed);
  const std::string model = folder_.File("model");
  ASSERT_EQ(RunProgram({NPUBANK_BIN "/make-checkpoint", "--out", model, "--layers", "4", "--hidden",
                        "512", "--heads", "8", "--intermediate", "2048", "--vocab", "1000",
                        "--dtype", "f32"})
                .exit_status,
            0);
  const Json alone = Report(RunProgram(BankRun("off", /*tokens=*/2, model)));
  StartDaemon();
  Report(RunProgram(BankRun(socket_, /*tokens=*/2, model)));
  const uint64_t unique = Daemon().evaluations;
  EXPECT_EQ(daemon_->End(SIGTERM), 0);
  for (int round = 0; round < Repetitions(200, /*quick=*/2); ++round) {
    SCOPED_TRACE(round);
    StartDaemon();
    RunningProgram first(BankRun(socket_, /*tokens=*/2, model));
    std::vector<ProgramResult> results(7);
    std::vector<std::thread> others;
    for (ProgramResult& result : results) {
      others.emplace_back([&] { result = RunProgram(BankRun(socket_, /*tokens=*/2, model)); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
    first.End(SIGKILL);
    for (std::thread& other : others) other.join();
    for (const ProgramResult& result : results) {
      const Json report = Report(result);
      EXPECT_EQ(report["ids"], alone["ids"]);
      EXPECT_EQ(report["transformations"], 0);
    }
    const service::State state = Daemon();
    EXPECT_EQ(state.evaluations, unique);
    EXPECT_THAT(state.audit, IsEmpty());
    EXPECT_EQ(daemon_->End(SIGTERM), 0);
  }
}

TEST_F(ServiceProgramsTest, AClientThatIsKilledAtAnyMomentLeavesNothingAndDisturbsNobody) {
  const uint64_t seed = PrintedSeed();
  std::mt19937_64 random(seed);
  StartDaemon();
  const Json alone = Report(RunProgram(BankRun("off")));
  Report(RunProgram(BankRun(socket_)));
  const uint64_t memory = Daemon().memory_bytes;
  std::atomic<bool> stop = false;
  std::thread witness([&] {
    while (!stop) EXPECT_EQ(Report(RunProgram(BankRun(socket_)))["ids"], alone["ids"]);
  });
  std::chrono::duration<double> longest{0};
  for (int round = 0; round < Repetitions(300, /*quick=*/6); ++round) {
    RunningProgram victim(BankRun(socket_, 400));
    const auto pid = static_cast<uint32_t>(victim.pid());
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 120));
    victim.End(SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    EXPECT_TRUE(Eventually([&] {
      const service::State state = Daemon();
      return std::none_of(state.clients.begin(), state.clients.end(),
                          [&](const service::ClientState& client) { return client.pid == pid; });
    })) << "it is still there";
    longest =
        std::max<std::chrono::duration<double>>(longest, std::chrono::steady_clock::now() - killed);
  }
  stop = true;
  witness.join();
  std::printf("gone at the latest %.3f s after it was killed\n", longest.count());
  EXPECT_TRUE(Eventually([&] { return Daemon().clients.size() == 1; })) << "who asks";
  const service::State state = Daemon();
  EXPECT_THAT(state.audit, IsEmpty());
  EXPECT_EQ(state.memory_bytes, memory);
  EXPECT_EQ(state.clients[0].leased_segments, 0u);
  EXPECT_EQ(Report(RunProgram(BankRun(socket_)))["transformations"], 0);
}

}  // namespace
}  // namespace npubank
