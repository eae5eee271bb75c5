#include "npubank/tests/support/system/file_faults.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

namespace npubank {
namespace {

struct Fault {
  std::atomic<int64_t> until = 0;  // 1: the next call fails; below: none does
  std::atomic<int> error = 0;
};
Fault faults[2];
std::atomic<bool> some_failed = false;
std::atomic<size_t> most_at_once = SIZE_MAX;

bool MustFail(FileFault::Call call) {
  Fault& fault = faults[call];
  if (--fault.until != 0) return false;
  some_failed = true;
  errno = fault.error;
  return true;
}

}  // namespace

FileFault::FileFault(Call call, uint64_t nth, int error) {
  some_failed = false;
  faults[call].error = error;
  faults[call].until = static_cast<int64_t>(nth);
}

FileFault::~FileFault() {
  for (Fault& fault : faults) fault.until = 0;
}

bool FileFault::happened() const { return some_failed; }

ShortTransfers::ShortTransfers(size_t most) { most_at_once = most; }
ShortTransfers::~ShortTransfers() { most_at_once = SIZE_MAX; }

}  // namespace npubank

extern "C" ssize_t pread(int file, void* bytes, size_t size, off_t offset) {
  if (npubank::MustFail(npubank::FileFault::kRead)) return -1;
  return syscall(SYS_pread64, file, bytes, std::min(size, npubank::most_at_once.load()), offset);
}

extern "C" ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  if (npubank::MustFail(npubank::FileFault::kWrite)) return -1;
  return syscall(SYS_pwrite64, file, bytes, std::min(size, npubank::most_at_once.load()), offset);
}
