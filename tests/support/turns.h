// Turns: threads that run one at a time, in every order that there is.
//
//   Orders orders;
//   while (orders.Next()) {
//     Turns turns(orders);
//     turns.Run({[&] { ... turns.Pass(); ... }, [&] { ... }});
//     ... what must be true, whatever the order was ...
//   }
//
// A thread runs until it passes the turn on, or ends. A thread that waits for others says so
// (PassBlocked, in a loop) and has no turn until another has said that it is worth looking again
// (Unblock). When nobody is left to run the threads wait for each other: that is a failure, and
// PassBlocked returns true from then on, so that they give up. Who was told to look again and found
// nothing says so (`in_vain`): before it is a failure, each that is blocked looks once more.
// No time is involved: the same order runs the same way again.
#ifndef NPUBANK_TESTS_SUPPORT_TURNS_H_
#define NPUBANK_TESTS_SUPPORT_TURNS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {

// Every sequence of choices, depth first.
class Orders {
 public:
  // False when all have been taken.
  bool Next() {
    if (taken_++ > 0) {
      while (!path_.empty() && path_.back().choice + 1 == path_.back().choices) path_.pop_back();
      if (path_.empty()) return false;
      ++path_.back().choice;
    }
    at_ = 0;
    return true;
  }
  size_t Choose(size_t choices) {
    if (at_ == path_.size()) path_.push_back({0, choices});
    return path_[at_++].choice;
  }
  size_t taken() const { return taken_; }

 private:
  struct Choice {
    size_t choice;
    size_t choices;
  };
  std::vector<Choice> path_;
  size_t at_ = 0;
  size_t taken_ = 0;
};

class Turns {
 public:
  explicit Turns(Orders& orders) : orders_(orders) {}

  // Returns when all have ended; false when they waited for each other.
  bool Run(const std::vector<std::function<void()>>& bodies) {
    runners_.assign(bodies.size(), Runner());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < bodies.size(); ++i) {
      threads.emplace_back([this, i, &bodies] {
        Self() = i;
        AwaitTurn(i);
        bodies[i]();
        runners_[i].ended = true;
        PassTo(kNobody);
      });
    }
    for (std::vector<size_t> ready; !(ready = Ready()).empty();) {
      const size_t next = deadlock_ ? ready.front() : ready[orders_.Choose(ready.size())];
      order_.push_back(next);
      PassTo(next);
      AwaitTurn(kNobody);
    }
    for (std::thread& thread : threads) thread.join();
    return !deadlock_;
  }

  // The rest is called by a thread whose turn it is.
  static size_t Current() { return Self(); }
  void Pass() {
    const size_t self = Self();
    PassTo(kNobody);
    AwaitTurn(self);
  }
  // What it waits for is a name for Unblock. True: give up.
  bool PassBlocked(int waits_for, bool in_vain) {
    in_vain_ = in_vain ? in_vain_ + 1 : 0;
    runners_[Self()].blocked = true;
    runners_[Self()].waits_for = waits_for;
    Pass();
    return deadlock_;
  }
  void Unblock(int waited_for) {
    in_vain_ = 0;
    for (Runner& runner : runners_) runner.blocked &= runner.waits_for != waited_for;
  }

  // Who had the turns, for a message: "0 1 1 0".
  std::string Words() const { return absl::StrJoin(order_, " "); }

 private:
  static constexpr size_t kNobody = ~size_t{0};
  struct Runner {
    bool ended = false;
    bool blocked = false;
    int waits_for = 0;
  };

  static size_t& Self() {
    static thread_local size_t self = kNobody;
    return self;
  }

  std::vector<size_t> Ready() {
    std::vector<size_t> ready, blocked;
    for (size_t i = 0; i < runners_.size(); ++i) {
      if (!runners_[i].ended) (runners_[i].blocked ? blocked : ready).push_back(i);
    }
    if (!ready.empty() || blocked.empty()) return ready;
    deadlock_ |= in_vain_ >= blocked.size();
    // Who has waited longest; with a deadlock, whoever: it gives up.
    return {blocked[in_vain_ % blocked.size()]};
  }

  void PassTo(size_t next) {
    MutexLock lock(mutex_);
    turn_ = next;
    changed_.NotifyAll();
  }
  void AwaitTurn(size_t self) {
    MutexLock lock(mutex_);
    while (turn_ != self) changed_.Wait(mutex_);
  }

  Orders& orders_;
  Mutex mutex_;
  CondVar changed_;
  size_t turn_ ABSL_GUARDED_BY(mutex_) = kNobody;
  // Touched by whose turn it is only.
  std::vector<Runner> runners_;
  std::vector<size_t> order_;
  size_t in_vain_ = 0;  // looks, one after the other
  bool deadlock_ = false;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_TURNS_H_
