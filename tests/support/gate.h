// Gate: holds up whoever passes until it is opened, and says that somebody has come.
//
//   Gate gate;
//   std::thread thread([&] { gate.Pass(); });
//   gate.AwaitArrival();      // the thread stands at the gate
//   gate.Open();
#ifndef NPUBANK_TESTS_SUPPORT_GATE_H_
#define NPUBANK_TESTS_SUPPORT_GATE_H_

#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {

class Gate {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    ++arrived_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(mutex_);
  }
  void AwaitArrival() {
    MutexLock lock(mutex_);
    while (arrived_ == 0) changed_.Wait(mutex_);
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_GATE_H_
