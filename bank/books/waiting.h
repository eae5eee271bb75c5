// WaitOnce: one turn of a wait that somebody may cancel.
//
//   for (;;) {
//     if (cancelled && cancelled()) return ...;   // asked without the lock, before each turn
//     MutexLock lock(mutex_);
//     if (!done_) WaitOnce(changed_, mutex_, cancelled != nullptr);
//     if (done_) return ...;
//   }
#ifndef NPUBANK_BANK_BOOKS_WAITING_H_
#define NPUBANK_BANK_BOOKS_WAITING_H_

#include <chrono>

#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {

inline void WaitOnce(CondVar& changed, Mutex& mutex, bool cancellable)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  // Who cancels has no way to wake us.
  constexpr std::chrono::milliseconds kBetweenQuestions{10};
  if (!cancellable) return changed.Wait(mutex);
  changed.WaitUntil(mutex, std::chrono::steady_clock::now() + kBetweenQuestions);
}

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_WAITING_H_
