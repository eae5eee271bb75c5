#include "npubank/tests/support/system/socket_faults.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

namespace npubank {
namespace {

struct Fault {
  std::atomic<int64_t> until = 0;  // 1: the next call fails; below: none does
  std::atomic<bool> forever = false;
  std::atomic<int> error = 0;
};
Fault faults[SocketFault::kCalls];
std::atomic<bool> some_failed = false;

bool MustFail(SocketFault::Call call) {
  Fault& fault = faults[call];
  const int64_t left = --fault.until;
  if (left != 0 && !(fault.forever && left < 0)) return false;
  some_failed = true;
  errno = fault.error;
  return true;
}

}  // namespace

SocketFault::SocketFault(Call call, uint64_t nth, int error, bool forever) {
  some_failed = false;
  faults[call].error = error;
  faults[call].forever = forever;
  faults[call].until = static_cast<int64_t>(nth);
}

SocketFault::~SocketFault() {
  for (Fault& fault : faults) {
    fault.forever = false;
    fault.until = 0;
  }
}

bool SocketFault::happened() const { return some_failed; }

}  // namespace npubank

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (npubank::MustFail(npubank::SocketFault::kSend)) return -1;
  return syscall(SYS_sendmsg, socket, message, flags);
}

extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  if (npubank::MustFail(npubank::SocketFault::kReceive)) return -1;
  return syscall(SYS_recvmsg, socket, message, flags);
}

extern "C" int connect(int socket, const sockaddr* address, socklen_t size) {
  if (npubank::MustFail(npubank::SocketFault::kConnect)) return -1;
  return static_cast<int>(syscall(SYS_connect, socket, address, size));
}

extern "C" int socket(int domain, int type, int protocol) noexcept {
  if (npubank::MustFail(npubank::SocketFault::kSocket)) return -1;
  return static_cast<int>(syscall(SYS_socket, domain, type, protocol));
}

extern "C" int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  if (npubank::MustFail(npubank::SocketFault::kAccept)) return -1;
  return static_cast<int>(syscall(SYS_accept4, socket, address, size, flags));
}

extern "C" int getsockopt(int socket, int level, int name, void* value, socklen_t* size) noexcept {
  if (npubank::MustFail(npubank::SocketFault::kGetOption)) return -1;
  return static_cast<int>(syscall(SYS_getsockopt, socket, level, name, value, size));
}

extern "C" int setsockopt(int socket, int level, int name, const void* value,
                          socklen_t size) noexcept {
  if (npubank::MustFail(npubank::SocketFault::kSetOption)) return -1;
  return static_cast<int>(syscall(SYS_setsockopt, socket, level, name, value, size));
}

extern "C" int ioctl(int file, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request == TIOCOUTQ && npubank::MustFail(npubank::SocketFault::kAsk)) return -1;
  return static_cast<int>(syscall(SYS_ioctl, file, request, argument));
}

extern "C" int fcntl(int file, int command, ...) {
  if (npubank::MustFail(npubank::SocketFault::kControl)) return -1;
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);  // a number or a pointer: the kernel knows which
  va_end(arguments);
  return static_cast<int>(syscall(SYS_fcntl, file, command, argument));
}

// Memory of the program's own is none of its business.
extern "C" void* mmap(void* place, size_t bytes, int rights, int flags, int file,
                      off_t offset) noexcept {
  const bool shared = file >= 0 && (flags & MAP_SHARED) != 0;
  if (shared && npubank::MustFail(npubank::SocketFault::kMap)) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, place, bytes, rights, flags, file, offset));
}

extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  if (npubank::MustFail(npubank::SocketFault::kMemoryFile)) return -1;
  return static_cast<int>(syscall(SYS_memfd_create, name, flags));
}
