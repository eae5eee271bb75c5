// Departures: what leaves the device when room is needed, and what is still on its way out.
//
// What was evicted or forgotten gives its bytes back only after the books' lock, so who finds neither
// room nor a victim may have come a moment too early:
//
//   Departures departures(books);
//   const uint64_t seen = departures.count();
//   while (!... there is room ...) {
//     if (!departures.EvictFor(bytes) && !departures.Await(seen)) ... refuse ...
//
// Only what nobody leases and what can come back leaves; eviction.h chooses among it.
// Threads: every method, from any thread. Cost: a walk over all that is on the device; Await waits for
// memory to be freed, and for nothing else.
#ifndef NPUBANK_BANK_BOOKS_BUDGET_DEPARTURES_H_
#define NPUBANK_BANK_BOOKS_BUDGET_DEPARTURES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "npubank/bank/books/books.h"
#include "npubank/bank/books/budget/tensor_group.h"

namespace npubank {

class Departures {
 public:
  explicit Departures(std::shared_ptr<Books> books) : books_(std::move(books)) {}

  // Evicts so that at least `bytes` go back to the device; false, and nothing has changed, when
  // what may leave is not enough.
  bool EvictFor(uint64_t bytes) const;
  // How many EvictFor could give back at most.
  uint64_t EvictableBytes() const;
  // Drops what nobody has owned or leased for at least `idle_for`; returns how many bytes went back.
  uint64_t Trim(std::chrono::steady_clock::duration idle_for) const;

  // How often something has left since the books were made.
  uint64_t count() const;
  // True when something has left since `seen`; waits for it while anything is on its way.
  bool Await(uint64_t seen) const;

  // The largest tensors on the device, for a message.
  std::string LargestHolders() const;

 private:
  // What nobody leases and can come back.
  std::vector<TensorGroup> Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(books_->mutex);

  std::shared_ptr<Books> books_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_BUDGET_DEPARTURES_H_
