#include "npubank/bank/books/residency.h"

#include <gtest/gtest.h>

#include <vector>

namespace npubank {
namespace {

using S = Residency;
using E = ResidencyEvent;
using A = ResidencyAction;

constexpr S kStates[] = {S::kRegistered, S::kEvaluating, S::kResident, S::kEvicted, S::kFailed};
constexpr E kEvents[] = {E::kWanted, E::kPublished, E::kFailed, E::kEvicted, E::kReleased};

TEST(ResidencyTable, OnlyAnEvaluationMakesBytesResident) {
  for (S state : kStates) {
    for (E event : kEvents) {
      const ResidencyStep step = NextResidency(state, event);
      if (step.state == S::kResident && state != S::kResident) {
        EXPECT_EQ(state, S::kEvaluating);
        EXPECT_EQ(event, E::kPublished);
      }
    }
  }
}

TEST(ResidencyTable, WantedEvaluatesWaitsOrUsesAndNothingElse) {
  EXPECT_EQ(NextResidency(S::kRegistered, E::kWanted).action, A::kEvaluate);
  EXPECT_EQ(NextResidency(S::kEvicted, E::kWanted).action, A::kEvaluate);
  EXPECT_EQ(NextResidency(S::kFailed, E::kWanted).action, A::kEvaluate);
  EXPECT_EQ(NextResidency(S::kEvaluating, E::kWanted).action, A::kWait);
  EXPECT_EQ(NextResidency(S::kResident, E::kWanted).action, A::kUse);
}

TEST(ResidencyTable, TheOneWhoEvaluatesIsAlone) {
  // Once evaluating, no event but the end of that evaluation leaves the state.
  for (E event : {E::kWanted, E::kEvicted, E::kReleased}) {
    EXPECT_EQ(NextResidency(S::kEvaluating, event).state, S::kEvaluating);
  }
}

TEST(ResidencyTable, WhatCannotHappenChangesNothing) {
  int impossible = 0;
  for (S state : kStates) {
    for (E event : kEvents) {
      const ResidencyStep step = NextResidency(state, event);
      if (step.action != A::kImpossible) continue;
      EXPECT_EQ(step.state, state);
      ++impossible;
    }
  }
  EXPECT_EQ(impossible, 12);
}

TEST(ResidencyTable, EveryStateCanBeReachedAndLeft) {
  for (S state : kStates) {
    bool reached = false;
    bool left = false;
    for (S other : kStates) {
      for (E event : kEvents) {
        if (other != state && NextResidency(other, event).state == state) reached = true;
        if (other == state && NextResidency(state, event).state != state) left = true;
      }
    }
    EXPECT_TRUE(reached || state == S::kRegistered) << ResidencyName(state);
    EXPECT_TRUE(left) << ResidencyName(state);
  }
}

}  // namespace
}  // namespace npubank
