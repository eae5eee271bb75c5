#include "npubank/lazy_tensor/base/files/lost_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace npubank {
namespace {

uintptr_t PageBytes() {
  static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

// The handler takes no lock and frees nothing, so the list of watches only grows; one that is given
// back serves the next range.
struct LostPages::Watch {
  std::atomic<bool> taken{true};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // not above begin: nothing is watched
  std::atomic<bool> lost{false};
  Watch* next = nullptr;

  static std::atomic<Watch*> first;
  static struct sigaction before;  // written once, by Install

  static Watch* Take();
  static void Install();
  static bool PutZeros(uintptr_t address);
  static void Handle(int signal, siginfo_t* info, void* context);
};

std::atomic<LostPages::Watch*> LostPages::Watch::first{nullptr};
struct sigaction LostPages::Watch::before = {};

LostPages::Watch* LostPages::Watch::Take() {
  for (Watch* watch = first.load(); watch != nullptr; watch = watch->next) {
    if (!watch->taken.load() && !watch->taken.exchange(true)) return watch;
  }
  auto* const watch = new Watch;
  watch->next = first.load();
  while (!first.compare_exchange_weak(watch->next, watch)) {
  }
  return watch;
}

bool LostPages::Watch::PutZeros(uintptr_t address) {
  for (Watch* watch = first.load(); watch != nullptr; watch = watch->next) {
    if (address < watch->begin.load() || address >= watch->end.load()) continue;
    watch->lost.store(true);
    const uintptr_t page = address / PageBytes() * PageBytes();
    // The bare call: a checker's wrapper of mmap does more than a handler may.
    return syscall(SYS_mmap, page, PageBytes(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == static_cast<long>(page);
  }
  return false;
}

void LostPages::Watch::Handle(int signal, siginfo_t* info, void* context) {
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

void LostPages::Watch::Install() {
  static const bool installed = [] {
    (void)PageBytes();  // a handler may not be the first to ask
    struct sigaction action = {};
    action.sa_sigaction = &Watch::Handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, nullptr, &before);
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  (void)installed;
}

LostPages::LostPages(const void* data, uint64_t bytes) : watch_(Watch::Take()) {
  Watch::Install();
  watch_->lost.store(false);
  watch_->begin.store(reinterpret_cast<uintptr_t>(data));
  watch_->end.store(reinterpret_cast<uintptr_t>(data) + bytes);
}

LostPages::~LostPages() {
  watch_->end.store(0);
  watch_->taken.store(false);
}

bool LostPages::any() const { return watch_->lost.load(); }

}  // namespace npubank
