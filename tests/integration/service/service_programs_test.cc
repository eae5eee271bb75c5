// npubankd and bank-run as programs: one copy of the weights for all of them, and what happens when one is
// killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/client/bank_client.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/support/temporary_folder.h"

extern char** environ;

namespace npubank {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

bool Eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// A program that goes on while the test does something else; killed at the end if it still runs.
class RunningProgram {
 public:
  explicit RunningProgram(const std::vector<std::string>& arguments) {
    std::vector<char*> argv;
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0) << argv[0];
    posix_spawn_file_actions_destroy(&actions);
  }
  ~RunningProgram() {
    if (pid_ > 0) End(SIGKILL);
  }
  // Its exit status; 128 + signal when a signal ended it.
  int End(int signal) {
    kill(pid_, signal);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
};

class ServiceProgramsTest : public ::testing::Test {
 protected:
  ServiceProgramsTest() { setenv("NPUBANK_NPU_IMPORT", "1", 1); }
  ~ServiceProgramsTest() override { unsetenv("NPUBANK_NPU_IMPORT"); }

  // `by`: a program that becomes it.
  void StartDaemon(std::vector<std::string> by = {}) {
    std::vector<std::string> arguments = std::move(by);
    arguments.insert(arguments.end(), {NPUBANK_BIN "/npubankd", "--socket", socket_});
    daemon_ = std::make_unique<RunningProgram>(arguments);
    ASSERT_TRUE(Eventually([&] { return service::BankClient::Connect(socket_).ok(); }));
  }
  std::vector<std::string> BankRun(const std::string& service, int tokens = 20) const {
    return {NPUBANK_BIN "/bank-run",
            "--model",
            StoriesFolder(),
            "--weights",
            "f16",
            "--prompt-ids",
            "1,403,407",
            "--tokens",
            absl::StrCat(tokens),
            "--workers",
            "1",
            "--device",
            "software",
            "--ids",
            "--report",
            "json",
            "--service",
            service};
  }
  static Json Report(const ProgramResult& result) {
    EXPECT_EQ(result.exit_status, 0) << result.error;
    return Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }
  service::State Daemon() const {
    auto client = service::BankClient::Connect(socket_);
    EXPECT_TRUE(client.ok()) << client.status();
    auto state = (*client)->GetState();
    EXPECT_TRUE(state.ok()) << state.status();
    return *std::move(state);
  }

  TemporaryFolder folder_;
  const std::string socket_ = folder_.File("service/socket");
  std::unique_ptr<RunningProgram> daemon_;
};

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
  for (int round = 0; round < Repetitions(40); ++round) {
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

TEST_F(ServiceProgramsTest, AClientThatIsKilledAtAnyMomentLeavesNothingAndDisturbsNobody) {
  const uint64_t seed = PrintedSeed();
  std::mt19937_64 random(seed);
  StartDaemon();
  const Json alone = Report(RunProgram(BankRun("off")));
  for (int round = 0; round < Repetitions(60); ++round) {
    RunningProgram victim(BankRun(socket_, 400));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 120));
    victim.End(SIGKILL);
    const auto state = [&] { return Daemon(); };
    EXPECT_TRUE(Eventually([&] { return state().clients.size() == 1; })) << "it is still there";
    EXPECT_THAT(state().audit, IsEmpty());
    for (const service::ClientState& client : state().clients) {
      EXPECT_EQ(client.leased_segments, 0u) << client.program;
    }
  }
  const Json after = Report(RunProgram(BankRun(socket_)));
  EXPECT_EQ(after["ids"], alone["ids"]);
  EXPECT_EQ(after["transformations"], 0);
}

}  // namespace
}  // namespace npubank
