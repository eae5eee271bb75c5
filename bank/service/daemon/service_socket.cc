#include "npubank/bank/service/daemon/service_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

constexpr int kWaiting = 128;  // clients in the queue

absl::Status MakeFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "': a service's socket lies in a folder of its own"));
  }
  const std::string folder = path.substr(0, slash);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError(errno, "cannot make the folder", folder);
  }
  struct stat facts;
  if (lstat(folder.c_str(), &facts) != 0) return SystemError(errno, "cannot stat", folder);
  if (S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() && (facts.st_mode & 0077) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "'", folder,
      "' is not a folder that only this user may enter: chmod 700 it, or use another"));
}

}  // namespace

std::string ServiceSocket::DefaultPath() {
  const char* const named = std::getenv("NPUBANK_SERVICE");
  if (named != nullptr && *named != '\0') return named;
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime == nullptr || *runtime == '\0') return "";
  return absl::StrCat(runtime, "/npubank/socket");
}

absl::StatusOr<std::unique_ptr<ServiceSocket>> ServiceSocket::Listen(const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is too long for a socket: at most ",
                     sizeof(sockaddr_un::sun_path) - 1, " characters"));
  }
  NPUBANK_RETURN_IF_ERROR(MakeFolder(path));
  absl::StatusOr<FileLock> lock =
      FileLock::Acquire(absl::StrCat(path, ".lock"), {.limit = std::chrono::milliseconds(0)});
  if (absl::IsDeadlineExceeded(lock.status())) {
    return absl::AlreadyExistsError(absl::StrCat("a daemon listens at '", path, "' already"));
  }
  NPUBANK_RETURN_IF_ERROR(lock.status());
  std::unique_ptr<ServiceSocket> socket(new ServiceSocket(path, *std::move(lock)));
  NPUBANK_RETURN_IF_ERROR(socket->Bind());
  return socket;
}

// With the lock in hand what lies there is nobody's.
absl::Status ServiceSocket::Bind() {
  struct stat there;
  if (lstat(path_.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", path_, "' is there and is no socket: remove it, or use another path"));
  }
  (void)unlink(path_.c_str());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  listener_ = FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener_.is_open()) return SystemError(errno, "cannot make a socket for", path_);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(errno, "cannot bind", path_);
  }
  if (listen(listener_.get(), kWaiting) != 0) return SystemError(errno, "cannot listen at", path_);
  return absl::OkStatus();
}

ServiceSocket::~ServiceSocket() { (void)unlink(path_.c_str()); }

}  // namespace npubank::service
