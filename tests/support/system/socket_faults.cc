#include "npubank/tests/support/system/socket_faults.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

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

extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  if (npubank::MustFail(npubank::SocketFault::kMemoryFile)) return -1;
  return static_cast<int>(syscall(SYS_memfd_create, name, flags));
}
