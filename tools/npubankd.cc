// npubankd: the bank of the machine: evaluates each weight once, keeps it in memory that nobody can change
// any more, and every process that runs a model maps those same pages into its own NPU context.
//
//   npubankd                                          # where bank-run --service auto looks
//   npubankd --socket DIR/socket --budget 8000000000 --cache weights.cache
//   npubankd --idle-exit 600                          # ends when nobody has used it for ten minutes
//   npubankd --set-budget 4000000000                  # of the one that runs; what is idle leaves
//
// Started by systemd (tools/systemd), or by npubank-keeper where there is none, it serves the socket that it
// is given, says when it is ready, and has what its clients were given kept for the daemon after it.
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
#include "npubank/bank/service/client/bank_client.h"
#include "npubank/bank/service/daemon/kept_segments.h"
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
ABSL_FLAG(int64_t, idle_age, 0,
          "seconds after which what nobody has wanted leaves; 0: when its room is needed");
ABSL_FLAG(int64_t, idle_exit, 0, "seconds without a client after which it ends; 0: never");
ABSL_FLAG(uint64_t, set_budget, 0,
          "bytes that weights of the daemon that runs may take from now on; then it ends, and that "
          "one goes on");
ABSL_FLAG(bool, huge_pages, true,
          "ask the system for pages of 2 MiB; off where it takes long to find them");
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
              {"One that runs already", {{"set_budget", "BYTES"}}},
              {"How it runs", {{"workers", "N"}, {"idle_exit", "SECONDS"}, {"huge_pages", "BOOL"}}}}};
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

absl::StatusOr<Door> OpenDoor(FileDescriptor given) {
  if (given.is_open()) {
    return Door{
        .own = nullptr, .listener = std::move(given), .where = "its service manager's socket"};
  }
  NPUBANK_ASSIGN_OR_RETURN(std::string path, SocketPath());
  NPUBANK_ASSIGN_OR_RETURN(auto own, service::ServiceSocket::Listen(path));
  FileDescriptor listener = own->TakeListener();
  return Door{.own = std::move(own), .listener = std::move(listener), .where = std::move(path)};
}

// The daemon's bank, and the memory that it evaluates into.
struct Weights {
  uint64_t budget = 0;
  std::shared_ptr<service::KeptSegments> kept;  // null: nobody keeps anything for the next daemon
  std::shared_ptr<service::SharedMemory> memory;
  std::shared_ptr<CacheFile> cache;  // or null
  std::shared_ptr<Bank> bank;
};

absl::StatusOr<Weights> MakeWeights() {
  Weights made;
  if (auto store = ServiceManager::Store()) {
    made.kept = std::make_shared<service::KeptSegments>(std::move(store));
  }
  const service::MemoryLimit limit = service::MemoryLimit::Find();
  made.budget = limit.Within(Budget());
  service::SharedMemory::Options memory{.capacity = Budget(),
                                        .huge_pages = absl::GetFlag(FLAGS_huge_pages)};
  memory.room = [limit] { return limit.Within(service::MemoryLimit::kNone); };
  if (made.kept != nullptr) {
    memory.gone = [kept = made.kept](const service::Segment& segment) { kept->Forget(segment); };
  }
  NPUBANK_ASSIGN_OR_RETURN(made.memory, service::SharedMemory::Create(std::move(memory)));
  made.cache = OpenCache();
  BankOptions options;
  const int workers = absl::GetFlag(FLAGS_workers);
  const int threads = workers < 0 ? static_cast<int>(std::thread::hardware_concurrency()) : workers;
  if (threads > 0) options.workers = std::make_shared<ThreadWorkers>(threads);
  options.budget_bytes = made.budget;
  options.keep_unowned = true;  // whoever comes next finds it
  options.cache = made.cache;
  made.bank = Bank::Create(made.memory, options);
  return made;
}

absl::Status Run() {
  Harden();
  NPUBANK_ASSIGN_OR_RETURN(const FileDescriptor signals, EndSignals());
  NPUBANK_ASSIGN_OR_RETURN(ServiceManager::Handed handed, ServiceManager::Take());
  NPUBANK_ASSIGN_OR_RETURN(Door door, OpenDoor(std::move(handed.listener)));
  NPUBANK_ASSIGN_OR_RETURN(const Weights weights, MakeWeights());
  if (weights.kept != nullptr) {
    weights.kept->TakeBack(std::move(handed.kept), *weights.memory, *weights.bank);
  }
  NPUBANK_ASSIGN_OR_RETURN(
      auto server,
      service::Server::Start(
          std::move(door.listener), weights.bank, weights.memory,
          {.idle_age = std::chrono::seconds(std::max<int64_t>(absl::GetFlag(FLAGS_idle_age), 0)),
           .kept = weights.kept}));
  const std::string listening =
      absl::StrCat("listening at ", door.where, ", for ", weights.budget, " bytes of weights");
  std::fprintf(stderr, "npubankd: %s\n", listening.c_str());
  ServiceManager::Say(absl::StrCat("READY=1\nSTATUS=", listening));
  AwaitEnd(signals, *server);
  ServiceManager::Say("STOPPING=1");
  // A restart that was asked for finds all of it; after a stop the manager lets it go.
  if (weights.kept != nullptr) weights.kept->Rest();
  server.reset();
  return weights.cache == nullptr ? absl::OkStatus() : weights.cache->Save();
}

absl::Status SetBudgetOfRunning(uint64_t bytes) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string path, SocketPath());
  NPUBANK_ASSIGN_OR_RETURN(const auto client, service::BankClient::Connect(path));
  return client->SetBudget(bytes);
}

absl::Status ParseAndRun(int argc, char** argv) {
  NPUBANK_RETURN_IF_ERROR(RefuseArguments(ParseFlags(Help(), argc, argv)));
  if (const uint64_t bytes = absl::GetFlag(FLAGS_set_budget); bytes > 0) {
    NPUBANK_RETURN_IF_ERROR(RefuseFlags({"budget", "cache", "idle_age", "idle_exit", "workers"},
                                        "is not for --set-budget, which starts nothing"));
    return SetBudgetOfRunning(bytes);
  }
  return Run();
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) { return npubank::ExitStatus(npubank::ParseAndRun(argc, argv)); }
