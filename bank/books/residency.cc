#include "npubank/bank/books/residency.h"

namespace npubank {
namespace {

using S = Residency;
using A = ResidencyAction;

// Rows are states, columns events, both in the order of their enums.
constexpr ResidencyStep kTable[kResidencyStates][kResidencyEvents] = {
    // registered
    {{S::kEvaluating, A::kEvaluate},
     {S::kRegistered, A::kImpossible},
     {S::kRegistered, A::kImpossible},
     {S::kRegistered, A::kImpossible},
     {S::kRegistered, A::kForget}},
    // evaluating
    {{S::kEvaluating, A::kWait},
     {S::kResident, A::kAnnounce},
     {S::kFailed, A::kAnnounce},
     {S::kEvaluating, A::kImpossible},
     {S::kEvaluating, A::kAbandon}},
    // resident
    {{S::kResident, A::kUse},
     {S::kResident, A::kImpossible},
     {S::kResident, A::kImpossible},
     {S::kEvicted, A::kFree},
     {S::kResident, A::kReclaim}},
    // evicted
    {{S::kEvaluating, A::kEvaluate},
     {S::kEvicted, A::kImpossible},
     {S::kEvicted, A::kImpossible},
     {S::kEvicted, A::kImpossible},
     {S::kEvicted, A::kForget}},
    // failed
    {{S::kEvaluating, A::kEvaluate},
     {S::kFailed, A::kImpossible},
     {S::kFailed, A::kImpossible},
     {S::kFailed, A::kImpossible},
     {S::kFailed, A::kForget}},
};

}  // namespace

ResidencyStep NextResidency(Residency state, ResidencyEvent event) {
  return kTable[static_cast<int>(state)][static_cast<int>(event)];
}

absl::string_view ResidencyName(Residency state) {
  switch (state) {
    case Residency::kRegistered:
      return "registered";
    case Residency::kEvaluating:
      return "evaluating";
    case Residency::kResident:
      return "resident";
    case Residency::kEvicted:
      return "evicted";
    case Residency::kFailed:
      return "failed";
  }
  return "unknown";
}

}  // namespace npubank
