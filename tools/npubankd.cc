// npubankd: the bank of the machine: evaluates each weight once, keeps it in memory that nobody can change
// any more, and every process that runs a model maps those same pages into its own NPU context.
//
//   npubankd                                          # where bank-run --service auto looks
//   npubankd --socket DIR/socket --budget 8000000000 --cache weights.cache
//   npubankd --idle-exit 600                          # ends when nobody has used it for ten minutes
//
// Started by systemd (tools/systemd), it serves the socket that it is given, and says when it is ready.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/service/daemon/server.h"
#include "npubank/bank/service/daemon/service_socket.h"
#include "npubank/bank/service/memory_limit.h"
#include "npubank/bank/service/shared_memory.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/service/service_manager.h"
#include "npubank/tools/terminal/command_line.h"

ABSL_FLAG(
    std::string, socket, "",
    "where to listen, in a folder of its own; by default $NPUBANK_SERVICE, or npubank/socket in "
    "$XDG_RUNTIME_DIR");
ABSL_FLAG(uint64_t, budget, 0,
          "bytes that weights may take; 0: three quarters of the machine's memory; at most what "
          "this process's control group has room for");
ABSL_FLAG(std::string, cache, "", "file that keeps transformed weights for the next start");
ABSL_FLAG(
    int64_t, idle_age, 0,
    "seconds after the last client has gone, when what nobody wants leaves; 0: when its room is "
    "needed");
ABSL_FLAG(int64_t, idle_exit, 0, "seconds without a client after which it ends; 0: never");
ABSL_FLAG(int, workers, -1, "threads that evaluate weights; 0: inline; -1: one per core");

namespace npubank {
namespace {

ProgramHelp Help() {
  return {.name = "npubankd",
          .purpose = "keeps one copy of every weight for all processes of this user",
          .examples = {"npubankd", "npubankd --socket DIR/socket --budget 8000000000",
                       "npubankd --idle-exit 600 --cache weights.cache"},
          .groups = {
              {"Where it is", {{"socket", "PATH"}}},
              {"What it keeps", {{"budget", "BYTES"}, {"cache", "FILE"}, {"idle_age", "SECONDS"}}},
              {"How it runs", {{"workers", "N"}, {"idle_exit", "SECONDS"}}}}};
}

absl::StatusOr<std::string> SocketPath() {
  const std::string path = absl::GetFlag(FLAGS_socket);
  if (!path.empty()) return path;
  const std::string usual = service::ServiceSocket::DefaultPath();
  if (!usual.empty()) return usual;
  return absl::InvalidArgumentError(
      "--socket is needed where neither NPUBANK_SERVICE nor XDG_RUNTIME_DIR is set");
}

uint64_t Budget() {
  const uint64_t asked = absl::GetFlag(FLAGS_budget);
  if (asked > 0) return asked;
  struct sysinfo machine = {};
  if (sysinfo(&machine) != 0) return uint64_t{1} << 32;
  return uint64_t{machine.totalram} * machine.mem_unit / 4 * 3;
}

// Nobody of the same user reads its memory or takes its descriptors through /proc, and clients can bring
// as many files as the system allows.
void Harden() {
  (void)prctl(PR_SET_DUMPABLE, 0);
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

// What ends it: before any thread is started, so that all of them leave these signals alone.
absl::StatusOr<FileDescriptor> EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (sigprocmask(SIG_BLOCK, &signals, nullptr) != 0)
    return SystemError(errno, "cannot block", "SIGTERM");
  FileDescriptor file(signalfd(-1, &signals, SFD_CLOEXEC));
  if (!file.is_open()) return SystemError(errno, "cannot wait for", "SIGTERM");
  return file;
}

void AwaitEnd(const FileDescriptor& signals, const service::Server& server) {
  const std::chrono::seconds idle_exit(absl::GetFlag(FLAGS_idle_exit));
  for (;;) {
    pollfd end = {signals.get(), POLLIN, 0};
    if (poll(&end, 1, 500) > 0) return;
    if (idle_exit.count() > 0 && server.idle_for() >= idle_exit) return;
  }
}

std::shared_ptr<CacheFile> OpenCache() {
  const std::string path = absl::GetFlag(FLAGS_cache);
  return path.empty() ? nullptr : CacheFile::Open({.path = path});
}

// Where clients come from: a service manager's socket, or one of its own at its usual place.
struct Door {
  std::unique_ptr<service::ServiceSocket> own;  // removed at the end
  FileDescriptor listener;
  std::string where;
};

absl::StatusOr<Door> OpenDoor() {
  NPUBANK_ASSIGN_OR_RETURN(FileDescriptor given, ServiceManager::TakeListener());
  if (given.is_open()) {
    return Door{
        .own = nullptr, .listener = std::move(given), .where = "its service manager's socket"};
  }
  NPUBANK_ASSIGN_OR_RETURN(std::string path, SocketPath());
  NPUBANK_ASSIGN_OR_RETURN(auto own, service::ServiceSocket::Listen(path));
  FileDescriptor listener = own->TakeListener();
  return Door{.own = std::move(own), .listener = std::move(listener), .where = std::move(path)};
}

absl::Status Run() {
  Harden();
  NPUBANK_ASSIGN_OR_RETURN(const FileDescriptor signals, EndSignals());
  NPUBANK_ASSIGN_OR_RETURN(Door door, OpenDoor());
  const service::MemoryLimit limit = service::MemoryLimit::Find();
  const uint64_t budget = limit.Within(Budget());
  NPUBANK_ASSIGN_OR_RETURN(
      const auto memory,
      service::SharedMemory::Create({.capacity = Budget(), .huge_pages = true, .room = [limit] {
                                       return limit.Within(service::MemoryLimit::kNone);
                                     }}));
  BankOptions options;
  const int workers = absl::GetFlag(FLAGS_workers);
  const int threads = workers < 0 ? static_cast<int>(std::thread::hardware_concurrency()) : workers;
  if (threads > 0) options.workers = std::make_shared<ThreadWorkers>(threads);
  options.budget_bytes = budget;
  options.keep_unowned = true;  // whoever comes next finds it
  options.cache = OpenCache();
  const std::shared_ptr<Bank> bank = Bank::Create(memory, options);
  NPUBANK_ASSIGN_OR_RETURN(
      auto server,
      service::Server::Start(
          std::move(door.listener), bank, memory,
          {.idle_age = std::chrono::seconds(std::max<int64_t>(absl::GetFlag(FLAGS_idle_age), 0))}));
  const std::string listening =
      absl::StrCat("listening at ", door.where, ", for ", budget, " bytes of weights");
  std::fprintf(stderr, "npubankd: %s\n", listening.c_str());
  ServiceManager::Say(absl::StrCat("READY=1\nSTATUS=", listening));
  AwaitEnd(signals, *server);
  ServiceManager::Say("STOPPING=1");
  server.reset();
  return options.cache == nullptr ? absl::OkStatus() : options.cache->Save();
}

absl::Status ParseAndRun(int argc, char** argv) {
  NPUBANK_RETURN_IF_ERROR(RefuseArguments(ParseFlags(Help(), argc, argv)));
  return Run();
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) { return npubank::ExitStatus(npubank::ParseAndRun(argc, argv)); }
