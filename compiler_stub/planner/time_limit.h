// TimeLimit: how long planning may go on. Every loop of the planner that can last counts its work
// here.
//
//   TimeLimit limit(absl::Seconds(1), [&] { return closing; });
//   for (...) {
//     if (limit.Reached(neighbours)) break;   // and make the best of what there is
//   }
//
// Looks at the clock, and asks whether planning is cancelled, once a millisecond or so of work, and
// at the first piece of work. Threads: one.
#ifndef NPUBANK_COMPILER_STUB_PLANNER_TIME_LIMIT_H_
#define NPUBANK_COMPILER_STUB_PLANNER_TIME_LIMIT_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace npubank {

class TimeLimit {
 public:
  // `cancelled` may be null: never.
  TimeLimit(absl::Duration limit, std::function<bool()> cancelled)
      : end_(absl::Now() + limit), ask_(std::move(cancelled)) {}

  // Counts `work`, each unit a few instructions. True: planning must end; and true ever after.
  bool Reached(int64_t work) {
    work_left_ -= work;
    return work_left_ <= 0 && Look();
  }

  bool timed_out() const { return timed_out_; }
  bool cancelled() const { return cancelled_; }

 private:
  static constexpr int64_t kWorkBetweenLooks = 1 << 19;

  bool Look() {
    if (timed_out_ || cancelled_) return true;
    work_left_ = kWorkBetweenLooks;
    cancelled_ = ask_ != nullptr && ask_();
    timed_out_ = !cancelled_ && absl::Now() >= end_;
    if (timed_out_ || cancelled_) work_left_ = 0;  // the next piece of work ends here as well
    return timed_out_ || cancelled_;
  }

  const absl::Time end_;
  const std::function<bool()> ask_;
  int64_t work_left_ = 0;
  bool timed_out_ = false;
  bool cancelled_ = false;
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PLANNER_TIME_LIMIT_H_
