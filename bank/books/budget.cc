#include "npubank/bank/books/budget.h"

#include <utility>

namespace npubank {

bool Budget::Take(uint64_t bytes) {
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

Reservation::Reservation(Reservation&& other) noexcept
    : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}

Reservation::~Reservation() {
  if (bytes_ > 0) budget_->used_.fetch_sub(bytes_, std::memory_order_relaxed);
}

bool Reservation::TryGrowTo(uint64_t bytes) {
  if (bytes <= bytes_) return true;
  if (!budget_->Take(bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

}  // namespace npubank
