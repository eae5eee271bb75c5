// Budget: how many device bytes a bank may hold. Reservation: a share of it, returned on
// destruction.
//
//   auto budget = std::make_shared<Budget>(512 << 20);
//   Reservation room(budget);
//   if (!room.TryGrowTo(bytes)) ... evict and try again ...
//
// A reservation is taken before the allocation and lives as long as it. Threads: any; one
// reservation by one thread at a time. Cost: an atomic exchange.
#ifndef NPUBANK_BANK_BOOKS_BUDGET_H_
#define NPUBANK_BANK_BOOKS_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace npubank {

class Budget {
 public:
  static constexpr uint64_t kUnlimited = ~uint64_t{0};

  explicit Budget(uint64_t limit) : limit_(limit) {}
  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  friend class Reservation;
  bool Take(uint64_t bytes);

  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};  // never above limit_
};

class Reservation {
 public:
  explicit Reservation(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();

  // True when it now holds at least `bytes`; false, and unchanged, when the budget has not so much.
  bool TryGrowTo(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Budget> budget_;
  uint64_t bytes_ = 0;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_BUDGET_H_
