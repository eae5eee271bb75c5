#include "npubank/tools/terminal/interrupt.h"

#include <atomic>
#include <csignal>

namespace npubank {
namespace {

std::atomic<bool> came = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // what a signal may touch

}  // namespace

void Interrupt::Catch() {
  struct sigaction action = {};
  action.sa_handler = [](int) { came = true; };
  // Once; and what is being read or waited for goes on.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

bool Interrupt::Came() { return came; }

}  // namespace npubank
