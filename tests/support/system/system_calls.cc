#include "npubank/tests/support/system/system_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

namespace npubank {

SystemCalls::Hook& SystemCalls::Current() {
  static auto& hook = *new Hook();
  return hook;
}

namespace {

bool Refused(SystemCall call, const char* path) {
  if (!SystemCalls::Current()) return false;
  const int error = SystemCalls::Current()(call, path);
  if (error != 0) errno = error;
  return error != 0;
}

template <typename... Arguments>
int Make(long number, Arguments... arguments) {
  return static_cast<int>(syscall(number, arguments...));
}

}  // namespace
}  // namespace npubank

using npubank::Make;
using npubank::Refused;
using npubank::SystemCall;

extern "C" int open(const char* path, int flags, ...) {
  const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  if (Refused(unnamed ? SystemCall::kOpenUnnamed : SystemCall::kOpen, path)) return -1;
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = unnamed || (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return Make(SYS_openat, AT_FDCWD, path, flags, mode);
}
extern "C" int fstat(int file, struct stat* facts) noexcept {
  if (Refused(SystemCall::kStat, nullptr)) return -1;
  return Make(SYS_fstat, file, facts);
}
extern "C" int fsync(int file) {
  if (Refused(SystemCall::kSync, nullptr)) return -1;
  return Make(SYS_fsync, file);
}
extern "C" int linkat(int from, const char* name, int to, const char* made, int flags) noexcept {
  if (Refused(SystemCall::kLink, made)) return -1;
  return Make(SYS_linkat, from, name, to, made, flags);
}
extern "C" int memfd_create(const char* name, unsigned int flags) noexcept {
  if (Refused(SystemCall::kMemory, name)) return -1;
  return Make(SYS_memfd_create, name, flags);
}
extern "C" int ftruncate(int file, off_t bytes) noexcept {
  if (Refused(SystemCall::kLength, nullptr)) return -1;
  return Make(SYS_ftruncate, file, bytes);
}
extern "C" int fallocate(int file, int mode, off_t offset, off_t bytes) {
  if (Refused(SystemCall::kSpace, nullptr)) return -1;
  return Make(SYS_fallocate, file, mode, offset, bytes);
}
extern "C" int fcntl(int file, int command, ...) {
  if (Refused(SystemCall::kControl, nullptr)) return -1;
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);  // a number or a pointer: the kernel knows which
  va_end(arguments);
  return Make(SYS_fcntl, file, command, argument);
}
extern "C" int dup3(int from, int to, int flags) noexcept {
  if (Refused(SystemCall::kDuplicate, nullptr)) return -1;
  return Make(SYS_dup3, from, to, flags);
}
extern "C" int rename(const char* from, const char* to) noexcept {
  if (Refused(SystemCall::kRename, to)) return -1;
  return Make(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
// Under another name, because the system has a struct of this one.
extern "C" int lock_file(int file, int operation) noexcept __asm__("flock");
extern "C" int lock_file(int file, int operation) noexcept {
  if (Refused(SystemCall::kLock, nullptr)) return -1;
  return Make(SYS_flock, file, operation);
}
