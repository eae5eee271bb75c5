#include "npubank/tests/support/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"

extern char** environ;

namespace npubank {
namespace {

std::string TemporaryName(const char* what) {
  static std::atomic<int> number = 0;
  return ::testing::TempDir() + "npubank_" + what + std::to_string(getpid()) + "_" +
         std::to_string(number++);
}

}  // namespace

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteWholeFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  EXPECT_TRUE(file.good()) << path;
}

ProgramResult RunProgram(const std::vector<std::string>& arguments) {
  const std::string out = TemporaryName("out");
  const std::string error = TemporaryName("error");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error.c_str(), flags, 0600);
  std::vector<std::string> all = arguments;
  const bool runs_bank = absl::EndsWith(all[0], "/bank-run");
  const bool chooses = absl::c_any_of(
      all, [](const std::string& argument) { return absl::StartsWith(argument, "--service"); });
  if (runs_bank && !chooses) all.insert(all.end(), {"--service", "off"});
  std::vector<char*> argv;
  for (const std::string& argument : all) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ProgramResult result;
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ), 0) << argv[0];
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = ReadWholeFile(out);
  result.error = ReadWholeFile(error);
  unlink(out.c_str());
  unlink(error.c_str());
  return result;
}

}  // namespace npubank
