#include "npubank/tools/service/notify_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

absl::Status Unanswered() {
  return absl::DeadlineExceededError("the service manager does not answer");
}

absl::Status Untold(absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot tell the service manager: ", why));
}

// Of a path, or of a name in no file system, which begins with a zero byte.
absl::StatusOr<socklen_t> AddressOf(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const bool meant = name.size() > 1 && (name[0] == '/' || name[0] == '@');
  if (!meant || name.size() >= sizeof(address.sun_path)) {
    return Untold(absl::StrCat("NOTIFY_SOCKET '", name, "' is no name of a socket"));
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  const bool abstract = name[0] == '@';
  if (abstract) address.sun_path[0] = '\0';
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 0 : 1));
}

}  // namespace

std::unique_ptr<NotifySocket> NotifySocket::FromEnvironment() {
  const char* const name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || *name == '\0') return nullptr;
  return std::make_unique<NotifySocket>(name);
}

absl::Status NotifySocket::Send(absl::string_view state, int descriptor) {
  if (given_up_) return Unanswered();
  absl::Status status = SendNow(state, descriptor);
  if (absl::IsDeadlineExceeded(status)) given_up_ = true;
  return status;
}

absl::Status NotifySocket::SendNow(absl::string_view state, int descriptor) const {
  sockaddr_un address;
  NPUBANK_ASSIGN_OR_RETURN(const socklen_t size, AddressOf(name_, address));
  const FileDescriptor socket_of(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_of.is_open()) return Untold(std::strerror(errno));
  const auto microseconds = std::chrono::microseconds(patience_).count();
  const timeval limit = {static_cast<time_t>(microseconds / 1000000),
                         static_cast<suseconds_t>(microseconds % 1000000)};
  (void)setsockopt(socket_of.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  iovec part = {const_cast<char*>(state.data()), state.size()};
  msghdr header = {};
  header.msg_name = &address;
  header.msg_namelen = size;
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket_of.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return absl::OkStatus();
  return errno == EAGAIN || errno == EWOULDBLOCK ? Unanswered() : Untold(std::strerror(errno));
}

// The manager closes what came with it when all before it is done.
absl::Status NotifySocket::Barrier() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return Untold(std::strerror(errno));
  const FileDescriptor ours(ends[0]);
  {
    const FileDescriptor theirs(ends[1]);
    NPUBANK_RETURN_IF_ERROR(Send("BARRIER=1", theirs.get()));
  }
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd end = {ours.get(), 0, 0};
    if (left.count() > 0 && poll(&end, 1, static_cast<int>(left.count())) < 0) continue;
    if (end.revents != 0) return absl::OkStatus();
    if (left.count() > 0) continue;
    given_up_ = true;
    return Unanswered();
  }
}

}  // namespace npubank
