// Which loads may begin on a budget, and what they may take of it.
#include "npubank/bank/books/budget/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/tests/support/repetitions.h"

namespace npubank {
namespace {

TEST(AdmissionTest, ALoadIsAdmittedAsAWholeOrNotAtAll) {
  const auto admission = std::make_shared<Admission>(10);
  const Admission::Answer first = admission->Ask(6);
  ASSERT_NE(first.pass, nullptr);
  EXPECT_EQ(admission->usage().used, 6u) << "before anything is taken";
  const Admission::Answer second = admission->Ask(5);
  EXPECT_EQ(second.pass, nullptr);
  EXPECT_EQ(second.missing, 1u);
  EXPECT_EQ(second.may_come, 6u);
  EXPECT_EQ(admission->usage().used, 6u);
  EXPECT_NE(admission->Ask(4).pass, nullptr);
}

TEST(AdmissionTest, WhatALoadHasNotSpentGoesBackWhenItEnds) {
  const auto admission = std::make_shared<Admission>(10);
  Admission::Answer load = admission->Ask(10);
  std::optional<Admission::Room> room;
  EXPECT_EQ(load.pass->Take(3, room), 0u);
  EXPECT_EQ(load.pass->unspent(), 7u);
  EXPECT_EQ(admission->usage().used, 10u) << "taken out of the reservation, not beside it";
  load.pass.reset();
  EXPECT_EQ(admission->usage().used, 3u);
  room.reset();
  EXPECT_EQ(admission->usage().used, 0u);
}

TEST(AdmissionTest, BeyondItsReservationALoadTakesWhatIsFreeAndNoMore) {
  const auto admission = std::make_shared<Admission>(10);
  const Admission::Answer load = admission->Ask(4);
  const Admission::Answer other = admission->Ask(3);
  std::optional<Admission::Room> room, more, of_other;
  EXPECT_EQ(load.pass->Take(4, room), 0u);
  EXPECT_EQ(load.pass->Grow(*room, 9), 2u);
  EXPECT_EQ(room->bytes(), 4u);
  EXPECT_EQ(load.pass->Grow(*room, 7), 0u);
  EXPECT_EQ(admission->usage().used, 10u);
  EXPECT_EQ(load.pass->Take(1, more), 1u) << "what is left is the other's";
  EXPECT_FALSE(more.has_value());
  EXPECT_EQ(other.pass->Take(3, of_other), 0u);
}

TEST(AdmissionTest, ALoadOfNothingIsAlwaysAdmittedAndNobodyWaitsForIt) {
  const auto admission = std::make_shared<Admission>(0);
  const Admission::Answer nothing = admission->Ask(0);
  EXPECT_NE(nothing.pass, nullptr);
  EXPECT_EQ(admission->Ask(1).may_come, 0u);
}

TEST(AdmissionTest, TheBudgetIsNeverLessThanWhatIsUsed) {
  const auto admission = std::make_shared<Admission>(10);
  const Admission::Answer load = admission->Ask(6);
  EXPECT_EQ(admission->SetLimit(4), 2u);
  EXPECT_EQ(admission->usage().limit, 10u);
  EXPECT_EQ(admission->SetLimit(6), 0u);
  EXPECT_EQ(admission->Ask(1).missing, 1u);
  EXPECT_EQ(admission->SetLimit(Admission::kUnlimited), 0u);
  EXPECT_NE(admission->Ask(Admission::kUnlimited - 6).pass, nullptr);
}

TEST(AdmissionTest, WhoWaitsIsWokenWhenALoadEndsAndWhenTheBudgetGrows) {
  for (const bool ends : {true, false}) {
    const auto admission = std::make_shared<Admission>(10);
    Admission::Answer load = admission->Ask(10);
    const Admission::Answer refused = admission->Ask(1);
    bool changed = false;
    std::thread waits([&] { changed = admission->AwaitChange(refused.seen, {}); });
    while (admission->usage().waits == 0) std::this_thread::yield();
    if (ends) {
      load.pass.reset();
    } else {
      EXPECT_EQ(admission->SetLimit(11), 0u);
    }
    waits.join();
    EXPECT_TRUE(changed);
    EXPECT_NE(admission->Ask(1).pass, nullptr);
  }
}

TEST(AdmissionTest, WhatChangedBeforeTheWaitIsNotWaitedFor) {
  const auto admission = std::make_shared<Admission>(10);
  Admission::Answer load = admission->Ask(10);
  const Admission::Answer refused = admission->Ask(1);
  load.pass.reset();
  EXPECT_TRUE(admission->AwaitChange(refused.seen, {}));
  EXPECT_EQ(admission->usage().waits, 0u);
}

TEST(AdmissionTest, WhoWaitsCanCancel) {
  const auto admission = std::make_shared<Admission>(10);
  const Admission::Answer load = admission->Ask(10);
  int asked = 0;
  EXPECT_FALSE(admission->AwaitChange(admission->Ask(1).seen, [&] { return ++asked == 2; }));
}

// The same in so few lines that they are obviously right: all there is, looked at anew each time.
class SlowAdmission {
 public:
  struct Load {
    uint64_t reserved = 0;
    std::map<int, uint64_t> taken;  // by the room's number; those that went as well
    uint64_t Taken() const {
      uint64_t sum = 0;
      for (const auto& [number, bytes] : taken) sum += bytes;
      return sum;
    }
    uint64_t Unspent() const { return reserved - std::min(reserved, Taken()); }
    uint64_t Granted() const { return std::max(reserved, Taken()); }
  };

  uint64_t Used() const {
    uint64_t used = 0;
    for (const auto& [number, load] : loads) used += load.Unspent();
    for (const auto& [number, bytes] : rooms) used += bytes;
    return used;
  }
  uint64_t Held() const {
    uint64_t held = 0;
    for (const auto& [number, load] : loads) held += load.Granted();
    return held;
  }

  uint64_t limit = 0;
  std::map<int, Load> loads;
  std::map<int, uint64_t> rooms;  // that live
};

class RandomAdmissions {
 public:
  explicit RandomAdmissions(uint64_t seed) : random_(seed) {
    slow_.limit = Below(60);
    admission_ = std::make_shared<Admission>(slow_.limit);
  }

  void Step() {
    ++step_;
    switch (Below(6)) {
      case 0:
        return Ask();
      case 1:
        return End();
      case 2:
        return Drop();
      case 3:
        return SetLimit();
      case 4:
        return Grow();
      default:
        return Take();
    }
  }

  void Check() const {
    ASSERT_EQ(admission_->usage().used, slow_.Used());
    ASSERT_EQ(admission_->usage().limit, slow_.limit);
    ASSERT_LE(slow_.Used(), slow_.limit);
    for (const auto& [number, pass] : passes_) {
      ASSERT_EQ(pass->unspent(), slow_.loads.at(number).Unspent());
    }
  }

 private:
  uint64_t Below(uint64_t end) { return random_() % end; }
  template <class Map>
  typename Map::iterator AnyOf(Map& map) {
    return std::next(map.begin(), static_cast<ptrdiff_t>(Below(map.size())));
  }

  void Ask() {
    const uint64_t bytes = Below(30);
    const uint64_t free = slow_.limit - slow_.Used();
    Admission::Answer answer = admission_->Ask(bytes);
    ASSERT_EQ(answer.pass != nullptr, bytes <= free);
    if (answer.pass == nullptr) {
      ASSERT_EQ(answer.missing, bytes - free);
      ASSERT_EQ(answer.may_come, slow_.Held());
      return;
    }
    slow_.loads[step_].reserved = bytes;
    passes_[step_] = std::move(answer.pass);
  }
  void End() {
    if (passes_.empty()) return;
    const auto pass = AnyOf(passes_);
    slow_.loads.erase(pass->first);
    passes_.erase(pass);
  }
  void Take() {
    if (passes_.empty()) return;
    const int number = AnyOf(passes_)->first;
    SlowAdmission::Load& load = slow_.loads.at(number);
    const uint64_t bytes = Below(12);
    const uint64_t free = slow_.limit - slow_.Used();
    const uint64_t missing = bytes - std::min(bytes, load.Unspent() + free);
    std::optional<Admission::Room> room;
    ASSERT_EQ(passes_.at(number)->Take(bytes, room), missing);
    ASSERT_EQ(room.has_value(), missing == 0);
    if (!room.has_value()) return;
    load.taken[step_] = slow_.rooms[step_] = bytes;
    rooms_.emplace(step_, std::pair(number, *std::move(room)));
  }
  void Grow() {
    if (rooms_.empty()) return;
    auto& [number, of_load] = *AnyOf(rooms_);
    auto& [owner, room] = of_load;
    if (passes_.count(owner) == 0) return;  // its load has ended
    SlowAdmission::Load& load = slow_.loads.at(owner);
    const uint64_t bytes = Below(24);
    const uint64_t more = bytes - std::min(bytes, slow_.rooms.at(number));
    const uint64_t free = slow_.limit - slow_.Used();
    const uint64_t missing = more - std::min(more, load.Unspent() + free);
    ASSERT_EQ(passes_.at(owner)->Grow(room, bytes), missing);
    if (missing > 0 || more == 0) return;
    load.taken[number] = slow_.rooms[number] = bytes;
  }
  void Drop() {
    if (rooms_.empty()) return;
    const auto room = AnyOf(rooms_);
    slow_.rooms.erase(room->first);
    rooms_.erase(room);
  }
  void SetLimit() {
    const uint64_t limit = Below(60);
    ASSERT_EQ(admission_->SetLimit(limit), slow_.Used() - std::min(slow_.Used(), limit));
    if (slow_.Used() <= limit) slow_.limit = limit;
  }

  std::mt19937 random_;
  SlowAdmission slow_;
  std::shared_ptr<Admission> admission_;
  std::map<int, std::unique_ptr<Admission::Pass>> passes_;
  std::map<int, std::pair<int, Admission::Room>> rooms_;  // with the load each is of
  int step_ = 0;
};

TEST(AdmissionTest, AgreesWithASlowOneOverManyRandomSequences) {
  const uint64_t seed = PrintedSeed();
  for (int sequence = 0; sequence < Repetitions(2000); ++sequence) {
    SCOPED_TRACE(absl::StrCat("NPUBANK_SEED=", seed + sequence));
    RandomAdmissions admissions(seed + sequence);
    for (int step = 0; step < 300; ++step) {
      SCOPED_TRACE(absl::StrCat("step ", step));
      admissions.Step();
      if (!::testing::Test::HasFatalFailure()) admissions.Check();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace npubank
