// Residency: where a tensor stands between its recipe and the device, as one pure transition table.
//
//   ResidencyStep step = NextResidency(entry.state, ResidencyEvent::kWanted);
//   entry.state = step.state;
//   switch (step.action) { ... }
//
//   state      | wanted      published  failed     evicted   released
//   -----------+------------------------------------------------------------
//   registered | evaluating  -          -          -         registered
//              |  evaluate                                    forget
//   evaluating | evaluating  resident   failed     -         evaluating
//              |  wait        announce   announce             abandon
//   resident   | resident    -          -          evicted   resident
//              |  use                               free      reclaim
//   evicted    | evaluating  -          -          -         evicted
//              |  evaluate                                    forget
//   failed     | evaluating  -          -          -         failed
//              |  evaluate                                    forget
//
// "-" cannot happen, because nobody raises such an event: the table says kImpossible there
// and lets the state stay. A cancelled evaluation is a failed one whose Status is Cancelled.
#ifndef NPUBANK_BANK_BOOKS_RESIDENCY_H_
#define NPUBANK_BANK_BOOKS_RESIDENCY_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace npubank {

enum class Residency : uint8_t {
  kRegistered,  // known, with its recipe
  kEvaluating,  // one thread is producing the bytes
  kResident,    // the bytes are on the device, complete
  kEvicted,     // they were; they can be brought back
  kFailed,      // the last evaluation failed; its Status is kept, the next one tries again
};
inline constexpr int kResidencyStates = 5;

enum class ResidencyEvent : uint8_t {
  kWanted,     // somebody needs the bytes
  kPublished,  // the evaluation is complete
  kFailed,     // the evaluation ended with an error
  kEvicted,    // the bank needs the room, or the owner sleeps
  kReleased,   // neither owner nor lease is left
};
inline constexpr int kResidencyEvents = 5;

enum class ResidencyAction : uint8_t {
  kEvaluate,    // the caller is the one who evaluates
  kWait,        // somebody else does: wait for its Status
  kUse,         // the bytes are there
  kAnnounce,    // wake the waiters
  kFree,        // give the device bytes back, keep the entry
  kReclaim,     // give the device bytes back and forget the tensor, now or when room is needed
  kForget,      // forget the tensor
  kAbandon,     // ask the evaluation to stop; who finishes it forgets the tensor
  kImpossible,  // would be a fault of this program
};

struct ResidencyStep {
  Residency state;
  ResidencyAction action;
};

ResidencyStep NextResidency(Residency state, ResidencyEvent event);

// "registered", "evaluating", "resident", "evicted", "failed".
absl::string_view ResidencyName(Residency state);

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_RESIDENCY_H_
