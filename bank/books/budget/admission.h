// Admission: the budget of device bytes, and which loads may begin on it.
//
//   auto admission = std::make_shared<Admission>(512 << 20);
//   Admission::Answer answer = admission->Ask(sum_of_what_the_load_will_make_resident);
//   if (answer.pass == nullptr) ... evict answer.missing bytes, or wait, or refuse ...
//   std::optional<Admission::Room> room;
//   uint64_t missing = answer.pass->Take(bytes, room);  // for one allocation; 0: it has its room
//
// A load is admitted as a whole: all it will make resident is reserved before its first evaluation.
// Its allocations then take their room out of that reservation, and what is left goes back when the
// load ends. Admission counts, and no more: who asks evicts, waits, evaluates.
//
// Why no two loads ever wait for each other:
//   - A load that waits to be admitted holds nothing: no reservation, no evaluation, no lease. So
//     nobody waits for it.
//   - An admitted load never waits for room that another load holds. When it needs more than it
//     reserved (a strategy that rounds up, an import that failed, a sharing that did not happen), it
//     takes what is free or what can be evicted, or it is refused.
//   - An admitted load waits for an evaluation that another admitted load has under way; an
//     evaluation waits for nothing but bytes that are already being freed.
//   - So what waits, waits for an admitted load; that for an evaluation; that for a free: no circle,
//     and each of them ends.
// Waiting is worth it only while admitted loads hold bytes: what they have not spent, and what they
// have and may give up by failing, or by being done with it (EvaluateAndAllocate). Who would not
// fit even then is refused at once. There is no order among waiters.
//
// Ownership: passes and rooms keep the admission alive. Threads: every method, from any thread; one
// room by one thread at a time. Cost: a short lock.
#ifndef NPUBANK_BANK_BOOKS_BUDGET_ADMISSION_H_
#define NPUBANK_BANK_BOOKS_BUDGET_ADMISSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {

class Admission : public std::enable_shared_from_this<Admission> {
 public:
  static constexpr uint64_t kUnlimited = ~uint64_t{0};

  // Bytes of the budget that belong to one allocation; given back on destruction.
  class Room {
   public:
    Room(Room&& other) noexcept;
    Room& operator=(Room&&) = delete;
    ~Room();
    uint64_t bytes() const { return bytes_; }

   private:
    friend class Admission;
    Room(std::shared_ptr<Admission> admission, uint64_t bytes);
    std::shared_ptr<Admission> admission_;  // null when moved from
    uint64_t bytes_;
  };

  // A load that was admitted, until it ends. What it has not spent goes back then.
  class Pass {
   public:
    explicit Pass(std::shared_ptr<Admission> admission) : admission_(std::move(admission)) {}
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    // Room out of the reservation, and beyond that out of what is free. How many bytes are missing;
    // when any are, nothing has changed.
    uint64_t Take(uint64_t bytes, std::optional<Room>& room);
    // The same for an allocation that costs more than was thought.
    uint64_t Grow(Room& room, uint64_t bytes);
    uint64_t unspent() const;

   private:
    friend class Admission;
    const std::shared_ptr<Admission> admission_;
    // Guarded by the admission's mutex.
    uint64_t unspent_ = 0;
    uint64_t granted_ = 0;  // unspent, and taken
  };

  struct Answer {
    std::unique_ptr<Pass> pass;  // null: not admitted
    uint64_t missing = 0;        // bytes that have to become free first
    uint64_t may_come = 0;       // that admitted loads hold
    uint64_t seen = 0;           // for AwaitChange
  };

  struct Usage {
    uint64_t limit = 0;
    uint64_t used = 0;   // rooms and reservations; never above the limit
    uint64_t waits = 0;  // to be admitted, so far
  };

  explicit Admission(uint64_t limit) : limit_(limit) {}

  // Admits a load that will take `bytes`, if as many are free. A load of nothing always is.
  Answer Ask(uint64_t bytes);
  // Returns when something has changed since `seen`: an admitted load has ended, or the budget has
  // grown. False when `cancelled`, if there is one, says so first.
  bool AwaitChange(uint64_t seen, const std::function<bool()>& cancelled);
  // How many bytes more than `limit` are in use; when any are, nothing has changed.
  uint64_t SetLimit(uint64_t limit);
  Usage usage() const;

 private:
  uint64_t Spend(Pass& pass, uint64_t bytes);
  uint64_t free() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return limit_ - used_; }

  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t limit_ ABSL_GUARDED_BY(mutex_);
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t granted_ ABSL_GUARDED_BY(mutex_) = 0;  // to the loads that are admitted
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t waits_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_BUDGET_ADMISSION_H_
