#include "npubank/lazy_tensor/sources/mapped_file.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "npubank/lazy_tensor/base/align.h"

namespace npubank {

// What the signal handler knows of a mapping. It may take no lock and free nothing, so guards are in
// a list that only grows; the guard of a mapping that is gone serves the next one.
struct MappedFile::Guard {
  std::atomic<bool> taken{true};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // not above begin: no mapping
  std::atomic<bool> lost{false};
  Guard* next = nullptr;

  static std::atomic<Guard*> first;

  static Guard* Take();
  void Watch(const void* data, uint64_t size) {
    lost.store(false);
    begin.store(reinterpret_cast<uintptr_t>(data));
    end.store(reinterpret_cast<uintptr_t>(data) + size);
  }
  void GiveBack() {
    end.store(0);
    taken.store(false);
  }

  static void Install();
  static bool PutZeros(uintptr_t address);
  static void Handle(int signal, siginfo_t* info, void* context);
  static struct sigaction before;  // written once, by Install
};

std::atomic<MappedFile::Guard*> MappedFile::Guard::first{nullptr};
struct sigaction MappedFile::Guard::before = {};

namespace {

uintptr_t PageBytes() {
  static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

MappedFile::Guard* MappedFile::Guard::Take() {
  for (Guard* guard = first.load(); guard != nullptr; guard = guard->next) {
    if (!guard->taken.exchange(true)) return guard;
  }
  auto* const guard = new Guard;
  guard->next = first.load();
  while (!first.compare_exchange_weak(guard->next, guard)) {
  }
  return guard;
}

// Whether the address is in a mapping, where there is now a page of zeros.
bool MappedFile::Guard::PutZeros(uintptr_t address) {
  for (Guard* guard = first.load(); guard != nullptr; guard = guard->next) {
    if (address < guard->begin.load() || address >= guard->end.load()) continue;
    guard->lost.store(true);
    const uintptr_t page = address / PageBytes() * PageBytes();
    // The bare call: a checker's wrapper of mmap does more than a handler may.
    return syscall(SYS_mmap, page, PageBytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0) == static_cast<long>(page);
  }
  return false;
}

void MappedFile::Guard::Handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool handled = PutZeros(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = error;
  if (handled) return;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    std::signal(signal, SIG_DFL);  // the access is repeated and ends the process
  }
}

void MappedFile::Guard::Install() {
  static const bool installed = [] {
    (void)PageBytes();
    struct sigaction action = {};
    action.sa_sigaction = &Guard::Handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, nullptr, &before);
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  (void)installed;
}

std::unique_ptr<MappedFile> MappedFile::Map(int fd, uint64_t size, uint64_t offset) {
  Guard::Install();
  void* const data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) return nullptr;
  Guard* const guard = Guard::Take();
  guard->Watch(data, size);
  return std::unique_ptr<MappedFile>(
      new MappedFile({static_cast<const std::byte*>(data), size}, guard));
}

MappedFile::~MappedFile() {
  guard_->GiveBack();
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool MappedFile::lost() const { return guard_->lost.load(); }

void MappedFile::Release(uint64_t offset, uint64_t length) const {
  // Whole pages inside the range; the last page of the file counts as whole.
  const uint64_t begin = AlignUp(offset, PageBytes());
  uint64_t end = offset + length;
  if (end != bytes_.size()) end = end / PageBytes() * PageBytes();
  if (begin < end) {
    madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace npubank
