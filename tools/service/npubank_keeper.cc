// npubank-keeper: plays systemd for npubankd where there is none: listens for it, starts it, starts it again
// when it is killed, and keeps for it the memory that its clients were given, so that the next one
// transforms none of it again.
//
//   npubank-keeper -- npubankd
//   npubank-keeper --socket DIR/socket -- npubankd --budget 8000000000
//
// Clients that come while it is not there wait. What it says is believed of the process that was started, and
// of no other (SCM_CREDENTIALS). It ends when npubankd does with status 0, when that does not come up, and
// on SIGTERM or SIGINT, which it passes on; what is kept goes with it, and so does npubankd.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "npubank/bank/service/daemon/service_socket.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/terminal/command_line.h"

ABSL_FLAG(
    std::string, socket, "",
    "where to listen, in a folder of its own; by default $NPUBANK_SERVICE, or npubank/socket in "
    "$XDG_RUNTIME_DIR");

namespace npubank {
namespace {

constexpr int kMostTries = 5;             // starts that end before it is ready
constexpr size_t kMostKept = 1 << 15;     // descriptors
constexpr size_t kMostMessage = 4 << 10;  // bytes
constexpr int kFirstHanded = 3;

ProgramHelp Help() {
  return {.name = "npubank-keeper",
          .purpose = "starts npubankd, again when it is killed, and keeps its memory meanwhile",
          .examples = {"npubank-keeper -- npubankd",
                       "npubank-keeper --socket DIR/socket -- npubankd --budget 8000000000"},
          .groups = {{"Where it is", {{"socket", "PATH"}}}}};
}

// Before anything else is done with a message: what came with it is closed with it.
struct Notice {
  std::string text;
  std::vector<FileDescriptor> files;
  pid_t from = 0;

  bool Says(absl::string_view assignment) const {
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (line == assignment) return true;
    }
    return false;
  }
  std::string Name() const {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      if (absl::ConsumePrefix(&line, "FDNAME=")) return std::string(line);
    }
    return "stored";
  }
};

bool Receive(const FileDescriptor& socket, Notice& notice) {
  char bytes[kMostMessage];
  iovec part = {bytes, sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return errno == EINTR;
  for (cmsghdr* of = CMSG_FIRSTHDR(&header); of != nullptr; of = CMSG_NXTHDR(&header, of)) {
    if (of->cmsg_level != SOL_SOCKET) continue;
    if (of->cmsg_type == SCM_CREDENTIALS) {
      ucred credentials = {};
      std::memcpy(&credentials, CMSG_DATA(of), sizeof(credentials));
      notice.from = credentials.pid;
    } else if (of->cmsg_type == SCM_RIGHTS) {
      for (size_t at = 0; at + sizeof(int) <= of->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int value = -1;
        std::memcpy(&value, CMSG_DATA(of) + at, sizeof(int));
        notice.files.emplace_back(value);
      }
    }
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) {
    notice.text.assign(bytes, static_cast<size_t>(got));
  }
  return true;
}

class Keeper {
 public:
  static absl::StatusOr<std::unique_ptr<Keeper>> Make(const std::string& socket,
                                                      std::vector<std::string> command) {
    std::unique_ptr<Keeper> keeper(new Keeper(std::move(command)));
    NPUBANK_ASSIGN_OR_RETURN(keeper->socket_, service::ServiceSocket::Listen(socket));
    keeper->listener_ = keeper->socket_->TakeListener();
    NPUBANK_RETURN_IF_ERROR(keeper->TakeSignals());
    NPUBANK_RETURN_IF_ERROR(keeper->ListenForNotices());
    return keeper;
  }

  absl::Status Run() {
    for (int tries = 0; tries < kMostTries && !ending_; ready_ ? tries = 0 : ++tries) {
      NPUBANK_RETURN_IF_ERROR(Start());
      const int status = Await();
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
    }
    if (ending_) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("'", command_[0], "' does not come up"));
  }

 private:
  explicit Keeper(std::vector<std::string> command) : command_(std::move(command)) {}

  absl::Status TakeSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&signals, signal);
    if (sigprocmask(SIG_BLOCK, &signals, &before_) != 0)
      return SystemError(errno, "cannot block", "signals");
    signals_ = FileDescriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.is_open()) return SystemError(errno, "cannot wait for", "signals");
    return absl::OkStatus();
  }

  // Of a name that the system finds, which is in no file system and left by nobody.
  absl::Status ListenForNotices() {
    notices_ = FileDescriptor(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    socklen_t size = sizeof(sa_family_t);
    const int yes = 1;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (!notices_.is_open() || bind(notices_.get(), any, size) != 0 ||
        setsockopt(notices_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) != 0) {
      return SystemError(errno, "cannot listen for", "notices");
    }
    size = sizeof(address);
    if (getsockname(notices_.get(), any, &size) != 0)
      return SystemError(errno, "cannot ask for the name of", "a socket");
    const size_t length = size - offsetof(sockaddr_un, sun_path) - 1;
    const std::string name = absl::StrCat("@", absl::string_view(address.sun_path + 1, length));
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    return absl::OkStatus();
  }

  absl::Status Start() {
    ready_ = false;
    child_ = fork();
    if (child_ < 0) return SystemError(errno, "cannot start", command_[0]);
    if (child_ == 0) Become();
    return absl::OkStatus();
  }

  // However the keeper ends, what it keeps goes with it, and who would be without it goes as well.
  [[noreturn]] void Become() {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != keeper_) _exit(0);
    std::vector<int> handed = {listener_.get()};
    std::string names = "listener";
    for (const auto& [name, file] : kept_) {
      handed.push_back(file.get());
      absl::StrAppend(&names, ":", name);
    }
    const int count = static_cast<int>(handed.size());
    // Out of the way first: one may have the number that another gets.
    for (int& file : handed) file = fcntl(file, F_DUPFD_CLOEXEC, kFirstHanded + count);
    for (int i = 0; i < count; ++i) {
      if (dup2(handed[static_cast<size_t>(i)], kFirstHanded + i) < 0) _exit(126);
    }
    setenv("LISTEN_PID", absl::StrCat(getpid()).c_str(), 1);
    setenv("LISTEN_FDS", absl::StrCat(count).c_str(), 1);
    setenv("LISTEN_FDNAMES", names.c_str(), 1);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    std::vector<char*> arguments;
    for (std::string& argument : command_) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }

  // Its status when it has ended, and all that it said is heard.
  int Await() {
    for (;;) {
      pollfd ends[2] = {{signals_.get(), POLLIN, 0}, {notices_.get(), POLLIN, 0}};
      (void)poll(ends, 2, -1);
      HandleSignals();
      int status = 0;
      const bool ended = waitpid(child_, &status, WNOHANG) == child_;
      for (Notice notice; Receive(notices_, notice); notice = Notice()) Handle(std::move(notice));
      if (ended) return status;
    }
  }

  void HandleSignals() {
    signalfd_siginfo of = {};
    while (read(signals_.get(), &of, sizeof(of)) == sizeof(of)) {
      const int signal = static_cast<int>(of.ssi_signo);
      if (signal == SIGCHLD) continue;
      ending_ = true;
      kill(child_, signal);
    }
  }

  // A barrier is answered by closing what came with it, once all before it is done.
  void Handle(Notice notice) {
    if (notice.from != child_) return;
    if (notice.Says("READY=1")) ready_ = true;
    if (notice.Says("FDSTOREREMOVE=1")) kept_.erase(notice.Name());
    const std::string name = notice.Name();
    if (!notice.Says("FDSTORE=1") || absl::StrContains(name, ':')) return;
    for (FileDescriptor& file : notice.files) {
      if (kept_.size() < kMostKept) kept_[name] = std::move(file);
    }
  }

  std::vector<std::string> command_;
  const pid_t keeper_ = getpid();
  std::unique_ptr<service::ServiceSocket> socket_;  // removed at the end
  FileDescriptor listener_;
  FileDescriptor signals_;
  FileDescriptor notices_;
  sigset_t before_ = {};
  std::map<std::string, FileDescriptor> kept_;
  pid_t child_ = 0;
  bool ready_ = false;
  bool ending_ = false;
};

absl::Status ParseAndRun(int argc, char** argv) {
  std::vector<std::string> command = ParseFlags(Help(), argc, argv);
  if (command.empty()) {
    return absl::InvalidArgumentError("which program? npubank-keeper -- npubankd [OPTIONS]");
  }
  std::string socket = absl::GetFlag(FLAGS_socket);
  if (socket.empty()) socket = service::ServiceSocket::DefaultPath();
  if (socket.empty()) {
    return absl::InvalidArgumentError(
        "--socket is needed where neither NPUBANK_SERVICE nor XDG_RUNTIME_DIR is set");
  }
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
  NPUBANK_ASSIGN_OR_RETURN(const auto keeper, Keeper::Make(socket, std::move(command)));
  return keeper->Run();
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) { return npubank::ExitStatus(npubank::ParseAndRun(argc, argv)); }
