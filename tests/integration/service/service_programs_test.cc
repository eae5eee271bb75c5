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
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
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

// In processes of their own, one after the other, as turns on one machine are.
TEST_F(ServiceProgramsTest, TwoModelsOnABudgetForBothTakeTurnsAndNoByteMoves) {
  const std::string other = folder_.File("other");
  ASSERT_EQ(RunProgram({NPUBANK_BIN "/make-checkpoint", "--out", other, "--layers", "2", "--hidden",
                        "128", "--heads", "2", "--kv-heads", "1", "--intermediate", "256",
                        "--vocab", "512", "--dtype", "f32"})
                .exit_status,
            0);
  const std::vector<std::string> a = BankRun(socket_);
  const std::vector<std::string> b = BankRun(socket_, /*tokens=*/5, other);
  // How many tensors were made, and moved out, in the turns of A, B and A when both had been there once.
  const auto turns = [&](uint64_t budget) {
    StartDaemon({}, {"--budget", absl::StrCat(budget)});
    for (const auto* model : {&a, &b}) Report(RunProgram(*model));
    EXPECT_TRUE(Eventually([&] { return Daemon().clients.size() == 1; })) << "who asks";
    const service::State before = Daemon();
    const std::optional<Held> held = HeldByDaemon();
    for (const auto* model : {&a, &b, &a}) {
      const Json report = Report(RunProgram(*model));
      EXPECT_EQ(report["transformations"], 0);
      EXPECT_EQ(report["device_weight_bytes"], 0);
      EXPECT_TRUE(report["service_notices"].empty()) << report["service_notices"];
    }
    const service::State after = Daemon();
    const uint64_t made = after.evaluations - before.evaluations;
    const std::optional<Held> now = HeldByDaemon();
    if (held.has_value() && now.has_value()) {
      const uint64_t written = now->written_bytes - held->written_bytes;
      EXPECT_EQ(written > 100000, made > 0) << written << " bytes";
    }
    EXPECT_EQ(after.cache_hits, 0u);
    EXPECT_EQ(daemon_->End(SIGTERM), 0);
    return std::pair(made, after.evictions - before.evictions);
  };
  StartDaemon();
  Report(RunProgram(a));
  const uint64_t of_a = Daemon().budget_used;
  Report(RunProgram(b));
  const uint64_t of_both = Daemon().budget_used;
  EXPECT_EQ(daemon_->End(SIGTERM), 0);
  // A segment of small tensors is some pages longer than they are.
  EXPECT_EQ(turns(of_both + of_both / 10), std::pair(uint64_t{0}, uint64_t{0}));
  const uint64_t larger = std::max(of_a, of_both - of_a);
  const auto [made, moved] = turns(larger + larger / 10);
  EXPECT_GT(made, 0u) << "and where only one of them fits, that is seen";
  EXPECT_GT(moved, 0u);
}

TEST_F(ServiceProgramsTest, ABudgetIsChangedWhileItRuns) {
  StartDaemon();
  const Json report = Report(RunProgram(BankRun(socket_)));
  const auto set = [&](const std::string& bytes) {
    return RunProgram({NPUBANK_BIN "/npubankd", "--socket", socket_, "--set-budget", bytes});
  };
  EXPECT_EQ(set("123456789").exit_status, 0);
  EXPECT_EQ(Daemon().budget, 123456789u);
  EXPECT_GT(Daemon().memory_bytes, 0u);
  EXPECT_EQ(set("1").exit_status, 0) << "nobody uses what is there: it leaves";
  EXPECT_EQ(Daemon().budget, 1u);
  EXPECT_EQ(Daemon().memory_bytes, 0u);
  const Json own = Report(RunProgram(BankRun(socket_)));
  EXPECT_EQ(own["ids"], report["ids"]);
  EXPECT_EQ(own["service_hits"], 0);
  EXPECT_THAT(own["service_notices"][0].get<std::string>(), HasSubstr("budget of 1"));
  EXPECT_EQ(set("1000000000").exit_status, 0);
  RunningProgram runs(BankRun(socket_, /*tokens=*/100000));
  ASSERT_TRUE(Eventually([&] {
    const std::vector<service::ClientState> clients = Daemon().clients;
    return std::any_of(clients.begin(), clients.end(),
                       [](const auto& client) { return client.leased_segments > 0; });
  }));
  const ProgramResult refused = set("4096");
  EXPECT_EQ(refused.exit_status, 1) << "somebody has it";
  EXPECT_THAT(refused.error, HasSubstr("a budget of 4096 bytes"));
  EXPECT_EQ(Daemon().budget, 1000000000u) << "and all is as it was";
  EXPECT_THAT(RunProgram({NPUBANK_BIN "/npubankd", "--socket", socket_, "--set-budget", "1",
                          "--cache", "x"})
                  .error,
              HasSubstr("is not for --set-budget"));
  EXPECT_EQ(
      RunProgram({NPUBANK_BIN "/npubankd", "--socket", folder_.File("none"), "--set-budget", "1"})
          .exit_status,
      1);
}

TEST_F(ServiceProgramsTest, FiveThousandSmallTensorsAreAttachedAndNoLimitIsMet) {
  const std::string model = folder_.File("many");
  ASSERT_EQ(RunProgram({NPUBANK_BIN "/make-checkpoint", "--out", model, "--layers", "560",
                        "--hidden", "32", "--heads", "2", "--kv-heads", "1", "--intermediate", "32",
                        "--vocab", "512", "--dtype", "f32"})
                .exit_status,
            0);
  StartDaemon();
  for (const bool first : {true, false}) {
    const Json report = Report(RunProgram(BankRun(socket_, /*tokens=*/1, model)));
    EXPECT_GE(report["service_hits"], 5000);
    EXPECT_EQ(report["device_weight_bytes"], 0);
    EXPECT_EQ(report["transformations"], 0);
    EXPECT_TRUE(report["service_notices"].empty()) << report["service_notices"];
    EXPECT_EQ(Daemon().evaluations, report["service_hits"]) << first;
  }
  EXPECT_LT(Daemon().segments.size(), 10u) << "small ones share segments";
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
  ASSERT_TRUE(Eventually([&] { return Daemon().clients.size() == 1; })) << "who asks";
  const uint64_t memory = Daemon().memory_bytes;
  const std::optional<Held> before = HeldByDaemon();
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
  EXPECT_LT(longest.count(), 1.0);
  EXPECT_TRUE(Eventually([&] { return Daemon().clients.size() == 1; })) << "who asks";
  const service::State state = Daemon();
  EXPECT_THAT(state.audit, IsEmpty());
  EXPECT_EQ(state.memory_bytes, memory);
  EXPECT_EQ(state.clients[0].leased_segments, 0u);
  if (before.has_value()) {
    const Held after = HeldByDaemon().value_or(Held());
    EXPECT_EQ(after.descriptors, before->descriptors);
    EXPECT_EQ(after.memory_bytes, before->memory_bytes);
    EXPECT_GT(after.memory_bytes, 0u);
  } else {
    std::printf("SKIPPED: descriptors and st_blocks, which only root sees of a daemon\n");
  }
  EXPECT_EQ(Report(RunProgram(BankRun(socket_)))["transformations"], 0);
}

}  // namespace
}  // namespace npubank
