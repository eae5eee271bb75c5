#include "npubank/bank/service/daemon/peer.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace npubank::service {
namespace {

#ifndef SO_PEERPIDFD
constexpr int kPeerPidfd = 77;  // since Linux 6.5; headers may be older than the kernel
#else
constexpr int kPeerPidfd = SO_PEERPIDFD;
#endif

// The process that connected, even if its pid is another's by now; before Linux 6.5 by its pid.
FileDescriptor ProcessOf(int socket, uint32_t pid) {
  int value = -1;
  socklen_t size = sizeof(value);
  if (getsockopt(socket, SOL_SOCKET, kPeerPidfd, &value, &size) == 0) return FileDescriptor(value);
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

std::string ProgramOf(uint32_t pid) {
  const std::string path = absl::StrCat("/proc/", pid, "/comm");
  const FileDescriptor file = FileDescriptor::Open(path, O_RDONLY);
  char name[64];
  const ssize_t got = file.is_open() ? read(file.get(), name, sizeof(name)) : -1;
  if (got <= 0) return "unknown";
  return std::string(absl::StripSuffix(absl::string_view(name, static_cast<size_t>(got)), "\n"));
}

}  // namespace

absl::StatusOr<Peer> Peer::Of(int socket) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return SystemError(errno, "cannot ask who is at", "the other end");
  }
  Peer peer;
  peer.pid = static_cast<uint32_t>(credentials.pid);
  peer.uid = credentials.uid;
  peer.process = ProcessOf(socket, peer.pid);
  if (!peer.process.is_open())
    return SystemError(errno, "cannot watch", absl::StrCat("pid ", peer.pid));
  peer.program = ProgramOf(peer.pid);
  return peer;
}

}  // namespace npubank::service
