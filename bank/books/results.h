// What the bank's books answer: Registration, SleepReport and BankTotals.
#ifndef NPUBANK_BANK_BOOKS_RESULTS_H_
#define NPUBANK_BANK_BOOKS_RESULTS_H_

#include <cstdint>

#include "npubank/lazy_tensor/digest.h"

namespace npubank {

struct Registration {
  Uid uid;
  bool hit = false;  // known already: the incoming tensor has been detached
};

// In device bytes, as the strategy rounds them. Equal contents that share an allocation count once,
// and stay when any of them stays.
struct SleepReport {
  uint64_t bytes_given_back = 0;
  uint64_t bytes_of_others_awake = 0;   // stay: an owner that is awake has them too
  uint64_t bytes_leased = 0;            // stay: somebody runs on them
  uint64_t bytes_without_way_back = 0;  // stay: an owner cannot bring them back, no host copy
};

struct BankTotals {
  uint64_t unique_tensors = 0;
  uint64_t unique_bytes = 0;    // W: of every uid that is known
  uint64_t resident_bytes = 0;  // of those that are resident, as asked for
  uint64_t device_bytes = 0;    // the same, as the strategy rounds them
  uint64_t registrations = 0;   // since the bank was made
  uint64_t hits = 0;
  // Over live owners: the sum of the bytes each uses, minus the unique bytes among them.
  uint64_t shared_bytes_saved = 0;
  uint64_t evaluations = 0;     // that succeeded
  uint64_t waits = 0;           // for another caller's evaluation, for what it evicts, for room
  uint64_t waits_for_room = 0;  // of those, loads that waited to be admitted
  uint64_t content_bytes_saved = 0;  // device bytes that equal contents share
  uint64_t evictions = 0;
  // How the evaluations came by their bytes; the rest was copied or imported as it is stored.
  uint64_t transformations = 0;
  uint64_t cache_hits = 0;
  // Leased from an upstream (bank/upstream.h), and the bytes of those.
  uint64_t service_hits = 0;
  uint64_t service_bytes = 0;
  // Copied, though the device imports: stored where it takes no argument (device_memory.h). A cache keeps
  // them where the next load can import them.
  uint64_t misaligned = 0;
  uint64_t misaligned_bytes = 0;
  uint64_t budget = 0;       // as it is now
  uint64_t budget_used = 0;  // of it: by tensors, and reserved by loads under way
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_RESULTS_H_
