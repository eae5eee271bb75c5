// ServiceProgramsTest: npubankd and bank-run as programs, on the software NPU, which can import.
//
//   StartDaemon();
//   const Json report = Report(RunProgram(BankRun(socket_)));
//   EXPECT_GT(report["service_hits"], 0);
#ifndef NPUBANK_TESTS_INTEGRATION_SERVICE_SERVICE_PROGRAMS_H_
#define NPUBANK_TESTS_INTEGRATION_SERVICE_SERVICE_PROGRAMS_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/client/bank_client.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/stories_model.h"
#include "npubank/tests/support/temporary_folder.h"

extern char** environ;

namespace npubank {

using Json = nlohmann::json;

inline bool Eventually(const std::function<bool()>& holds) {
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
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

class ServiceProgramsTest : public ::testing::Test {
 protected:
  ServiceProgramsTest() { setenv("NPUBANK_NPU_IMPORT", "1", 1); }
  ~ServiceProgramsTest() override { unsetenv("NPUBANK_NPU_IMPORT"); }

  // `by`: a program that becomes it.
  void StartDaemon(std::vector<std::string> by = {}, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> arguments = std::move(by);
    arguments.insert(arguments.end(), {NPUBANK_BIN "/npubankd", "--socket", socket_});
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    daemon_ = std::make_unique<RunningProgram>(arguments);
    ASSERT_TRUE(Eventually([&] { return service::BankClient::Connect(socket_).ok(); }));
  }
  std::vector<std::string> BankRun(const std::string& service, int tokens = 20,
                                   const std::string& model = StoriesFolder()) const {
    return {NPUBANK_BIN "/bank-run",
            "--model",
            model,
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
  // As the system has them, of whoever runs the socket: nothing where this user may not look, which the
  // daemon forbids to all but root.
  struct Held {
    size_t descriptors = 0;
    size_t sockets = 0;          // the one it listens at, and one for each connection
    size_t processes = 0;        // a pidfd for each connection
    uint64_t memory_bytes = 0;   // st_blocks of all memory files
    uint64_t written_bytes = 0;  // by write calls, since it began
  };
  // When nobody is connected but who asks here: what a connection has is closed some time after its client
  // has gone. Nothing where the system does not show it.
  std::optional<Held> HeldByDaemon() const {
    const auto client = service::BankClient::Connect(socket_).value();
    const std::string proc = absl::StrCat("/proc/", client->GetState().value().pid);
    std::optional<Held> held;
    EXPECT_TRUE(Eventually([&] {
      held = ReadHeld(proc);
      return !held.has_value() || (held->sockets == 2 && held->processes == 1);
    })) << "somebody else is connected";
    return held;
  }
  static std::optional<Held> ReadHeld(const std::string& proc) {
    std::error_code closed;
    Held held;
    for (const auto& of : std::filesystem::directory_iterator(proc + "/fd", closed)) {
      struct stat facts = {};
      std::error_code gone;
      const std::string is = std::filesystem::read_symlink(of.path(), gone).string();
      if (gone) continue;
      ++held.descriptors;
      held.sockets += is.find("socket:") == 0 ? 1 : 0;
      held.processes += is.find("[pidfd]") != std::string::npos ? 1 : 0;
      if (is.find("/memfd:") == 0 && stat(of.path().c_str(), &facts) == 0) {
        held.memory_bytes += static_cast<uint64_t>(facts.st_blocks) * 512;
      }
    }
    std::ifstream io(proc + "/io");
    std::string name;
    while (io >> name && name != "wchar:") {
    }
    io >> held.written_bytes;
    if (closed || !io) return std::nullopt;
    return held;
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

}  // namespace npubank

#endif  // NPUBANK_TESTS_INTEGRATION_SERVICE_SERVICE_PROGRAMS_H_
