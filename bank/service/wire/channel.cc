#include "npubank/bank/service/wire/channel.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
constexpr int kSendBuffer = 4 << 20;
constexpr size_t kKernelDescriptors = 253;
constexpr std::chrono::microseconds kLongestPause{2000};

// In place of a message that travels as a memfd, its last descriptor. No flatbuffer begins like this:
// its first four bytes are an offset inside of it.
struct Announcement {
  char mark[8] = {'N', 'P', 'B', 'M', 'E', 'M', 'F', 'D'};
  uint64_t bytes = 0;
};

bool IsAnnouncement(absl::string_view bytes) {
  const Announcement mark;
  return bytes.size() == sizeof(Announcement) &&
         std::memcmp(bytes.data(), mark.mark, sizeof(mark.mark)) == 0;
}

absl::Status Broken(absl::string_view how) {
  return absl::InvalidArgumentError(absl::StrCat("a message that ", how));
}

absl::Status SocketError(int error, absl::string_view what) {
  if (error == EAGAIN || error == EWOULDBLOCK) {
    return absl::DeadlineExceededError(absl::StrCat(what, ": the other end reads nothing"));
  }
  if (error == ETOOMANYREFS) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": this user has too many descriptors under way"));
  }
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

void LimitSends(const FileDescriptor& socket, std::chrono::milliseconds patience) {
  const auto microseconds = std::chrono::microseconds(patience).count();
  const timeval limit = {static_cast<time_t>(microseconds / 1000000),
                         static_cast<suseconds_t>(microseconds % 1000000)};
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

// The peer cannot change a byte of it, and so may be believed while it is read.
absl::StatusOr<FileDescriptor> Sealed(absl::string_view bytes) {
  FileDescriptor file(memfd_create("npubank message", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) return SystemError(errno, "cannot make", "a memfd for a message");
  NPUBANK_RETURN_IF_ERROR(WriteAt(file, "a message's memfd", 0, bytes));
  if (fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return SystemError(errno, "cannot seal", "a message's memfd");
  }
  return file;
}

// F_GET_SEALS is answered for memory files only, so nothing else is looked at any further.
absl::StatusOr<std::string> ReadSealed(const FileDescriptor& file, uint64_t bytes) {
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return Broken("is no sealed memfd");
  struct stat facts;
  if (fstat(file.get(), &facts) != 0) return SystemError(errno, "cannot stat", "a message");
  if (bytes > Channel::kMostBytes || static_cast<uint64_t>(facts.st_size) != bytes) {
    return Broken(absl::StrCat("announced ", bytes, " bytes and has ", facts.st_size));
  }
  std::string message(bytes, '\0');
  NPUBANK_ASSIGN_OR_RETURN(
      const size_t got,
      ReadAt(file, "a message", 0,
             absl::MakeSpan(reinterpret_cast<std::byte*>(message.data()), message.size())));
  if (got != bytes) return Broken("was cut");
  return message;
}

// Owned from here on, whatever else is wrong.
std::vector<FileDescriptor> TakeDescriptors(msghdr& header) {
  std::vector<FileDescriptor> taken;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int value = -1;
      std::memcpy(&value, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      taken.emplace_back(value);
    }
  }
  return taken;
}

}  // namespace

Channel::Channel(FileDescriptor socket, std::chrono::milliseconds patience)
    : socket_(std::move(socket)), patience_(patience) {
  // A smaller buffer only makes more messages travel as memfds.
  (void)setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof(kSendBuffer));
  LimitSends(socket_, patience);
}

absl::StatusOr<Channel> Channel::Connect(const std::string& path,
                                         std::chrono::milliseconds patience) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is no path for a socket: it has ",
                                                   path.size(), " characters, not 1 to ",
                                                   sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  FileDescriptor socket_of(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket_of.is_open()) return SystemError(errno, "cannot make a socket for", path);
  LimitSends(socket_of, patience);  // which is how long it waits for a place in the queue, too
  int result = 0;
  do {
    result = connect(socket_of.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EAGAIN) {
    return absl::DeadlineExceededError(
        absl::StrCat("cannot connect to ", path, ": too many wait there already"));
  }
  if (result != 0) return SystemError(errno, "cannot connect to", path);
  return Channel(std::move(socket_of));
}

absl::StatusOr<std::pair<Channel, Channel>> Channel::Pair() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError(errno, "cannot make", "a pair of sockets");
  }
  return std::pair(Channel(FileDescriptor(ends[0])), Channel(FileDescriptor(ends[1])));
}

absl::Status Channel::Send(absl::string_view bytes, absl::Span<const int> descriptors) {
  if (bytes.empty() || bytes.size() > kMostBytes || descriptors.size() > kMostDescriptors) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a message of ", bytes.size(), " bytes with ", descriptors.size(), " descriptors: at most ",
        kMostBytes, " and ", kMostDescriptors, " can be sent"));
  }
  if (bytes.size() <= kPacketBytes) return SendNow(bytes, descriptors);
  NPUBANK_ASSIGN_OR_RETURN(const FileDescriptor file, Sealed(bytes));
  std::vector<int> all(descriptors.begin(), descriptors.end());
  all.push_back(file.get());
  Announcement announcement;
  announcement.bytes = bytes.size();
  return SendNow(
      absl::string_view(reinterpret_cast<const char*>(&announcement), sizeof(announcement)), all);
}

absl::Status Channel::SendNow(absl::string_view bytes, absl::Span<const int> descriptors) {
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  if (!descriptors.empty()) {
    NPUBANK_RETURN_IF_ERROR(AwaitRead());
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return SocketError(errno, "cannot send");
  return absl::OkStatus();  // of this type of socket a message goes as a whole
}

// The system wakes nobody when the peer has read: looked at with growing pauses, the first of which are
// shorter than a round trip.
absl::Status Channel::AwaitRead() const {
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  for (std::chrono::microseconds pause(20);; pause = std::min(2 * pause, kLongestPause)) {
    int unread = 0;
    if (ioctl(socket_.get(), SIOCOUTQ, &unread) != 0) return SocketError(errno, "cannot ask");
    if (unread == 0) return absl::OkStatus();
    pollfd end = {socket_.get(), 0, 0};
    if (poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0) {
      return absl::UnavailableError("the other end is gone");
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError("the other end reads nothing");
    }
    std::this_thread::sleep_for(pause);
  }
}

absl::StatusOr<Channel::Packet> Channel::Receive() {
  Packet packet;
  if (room_ == nullptr) room_.reset(new (std::nothrow) char[kPacketBytes]);
  if (room_ == nullptr) return absl::ResourceExhaustedError("no memory for a message");
  iovec part = {room_.get(), kPacketBytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kKernelDescriptors * sizeof(int))];
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got = 0;
  do {
    got = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return SocketError(errno, "cannot receive");
  packet.descriptors = TakeDescriptors(header);
  if (got == 0) return absl::UnavailableError("the other end is gone");
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    return Broken(absl::StrCat("has more than ", kPacketBytes, " bytes in one piece"));
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    return Broken("lost descriptors: this process may be at its limit of open files");
  }
  packet.bytes.assign(room_.get(), static_cast<size_t>(got));
  if (!IsAnnouncement(packet.bytes)) return packet;
  if (packet.descriptors.empty()) return Broken("announced a memfd that did not come");
  uint64_t bytes = 0;
  std::memcpy(&bytes, packet.bytes.data() + offsetof(Announcement, bytes), sizeof(bytes));
  NPUBANK_ASSIGN_OR_RETURN(packet.bytes, ReadSealed(packet.descriptors.back(), bytes));
  packet.descriptors.pop_back();
  return packet;
}

void Channel::End() { shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace npubank::service
