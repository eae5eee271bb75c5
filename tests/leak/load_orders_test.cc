// Every order in which two and three loads contend for a budget that fits one of them, or two:
// explored, not sampled. A load passes its turn on when it reads a tensor's source, when a tensor is
// done, and when it waits; in between it runs alone.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/host_memory.h"
#include "npubank/bank/testing.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/tests/support/turns.h"
#include "npubank/tests/support/weights/scripted_source.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

constexpr uint64_t kPage = 4096;
constexpr int64_t kElements = kPage / sizeof(float);

// What loads wait for, beside a tensor's number.
constexpr int kNothing = -2, kRoom = -1;

struct Contention {
  std::vector<std::set<int>> loads;  // the tensors of each, a page each
  uint64_t pages = 0;                // the budget
  bool keeps = true;                 // the leases, until all have ended
  int fails = -1;                    // this tensor's first read does
  bool at_every_tensor = true;       // turns are passed on when a tensor is done as well
  int never_waits = -1;              // this load
};

class LoadOrdersTest : public ::testing::Test {
 protected:
  void Explore(const Contention& contention) {
    contention_ = contention;
    Orders orders;
    size_t refused = 0, waits = 0;
    while (orders.Next()) {
      Turns turns(orders);
      Contend(turns);
      for (const absl::Status& status : ended_)
        refused += absl::IsResourceExhausted(status) ? 1 : 0;
      waits += waits_;
      if (HasFailure()) {
        ADD_FAILURE() << "in the order " << turns.Words();
        return;
      }
    }
    std::printf("%zu orders: %zu loads refused, %zu waits\n", orders.taken() - 1, refused, waits);
  }

 private:
  void Contend(Turns& turns) {
    turns_ = &turns;
    memory_ = std::make_shared<HostMemory>();
    bank_ =
        Bank::Create(memory_, {.budget_bytes = contention_.pages * kPage, .share_content = false});
    MakeSources();  // the test's own, to the end
    LeakGuard guard({bank_});
    reads_.clear();
    being_read_.clear();
    asked_.clear();
    ended_.clear();
    waits_ = 0;
    ended_.resize(contention_.loads.size(), absl::UnknownError("it has not ended"));
    kept_.clear();
    kept_.resize(contention_.loads.size());
    std::vector<Owner> owners;
    std::vector<std::function<void()>> bodies;
    for (size_t i = 0; i < contention_.loads.size(); ++i) owners.push_back(Register(i));
    for (size_t i = 0; i < contention_.loads.size(); ++i) {
      bodies.emplace_back([this, i, &owners] { Load(i, owners[i]); });
    }
    EXPECT_TRUE(turns.Run(bodies)) << "the loads wait for each other";
    Check();
    kept_.clear();
  }

  // A file of its own for each tensor, so that its reads are told apart.
  void MakeSources() {
    sources_.clear();
    auto index = std::make_shared<SourceIndex>("weights");
    const TensorType type =
        TensorType::Create(ElementType::kF32, Shape::Create({kElements}).value()).value();
    for (const std::set<int>& load : contention_.loads) {
      for (const int tensor : load) {
        auto& source = sources_[tensor];
        if (source != nullptr) continue;
        const std::string name = absl::StrCat(tensor);
        source = ScriptedSource::Make(name, CountingFloats(kElements, tensor));
        source->on_read = [this, tensor] { OnRead(tensor); };
        if (tensor == contention_.fails) source->FailRead(1);
        const uint32_t file = static_cast<uint32_t>(sources_.size() - 1);
        EXPECT_TRUE(index->AddFile(SourceOpener::Held(source)).ok());
        EXPECT_TRUE(index->Add({name, type, file, 0}).ok());
      }
    }
    index_ = std::move(index);
  }

  static std::string NameOf(size_t load) { return absl::StrCat("load ", load); }

  Owner Register(size_t load) {
    Owner owner = bank_->AddOwner(NameOf(load), {.index = index_});
    for (const int tensor : contention_.loads[load]) {
      const std::string name = absl::StrCat(tensor);
      const LazyTensor stored = LazyTensor::Stored(*index_, name).value();
      EXPECT_TRUE(bank_->Register(owner, stored, name).ok());
    }
    return owner;
  }

  void Load(size_t load, const Owner& owner) {
    LoadOptions options;
    options.cancelled = [&] { return OnQuestion(load); };
    options.progress = [&](const LoadProgress& progress) {
      turns_->Unblock(progress.tensor[0] - '0');
      if (contention_.at_every_tensor) turns_->Pass();
      asked_[load] = {.totals = bank_->Totals()};
    };
    asked_[load] = {.totals = bank_->Totals()};
    if (contention_.keeps) {
      absl::StatusOr<std::vector<Lease>> leases = bank_->Load(owner, options);
      ended_[load] = leases.status();
      if (leases.ok()) kept_[load] = *std::move(leases);
    } else {
      ended_[load] = bank_->EvaluateAndAllocate(owner, options);
    }
    turns_->Unblock(kRoom);
    for (const int tensor : contention_.loads[load]) turns_->Unblock(tensor);
  }

  // The bank asks a load whether it was cancelled before each tensor, between tiles, and while it
  // waits. It waits when its own turn has begun a wait, and goes on doing so while what it waits for
  // is not there.
  bool OnQuestion(size_t load) {
    // Asked so often in a row without anything happening, it can only be waiting.
    constexpr int kQuestionsOfAWait = 8;
    Asked& asked = asked_[load];
    const BankTotals now = bank_->Totals();
    const bool begins = now.waits > asked.totals.waits;
    const bool for_room = now.waits_for_room > asked.totals.waits_for_room;
    if (begins) asked = {.totals = now, .waits_for = for_room ? kRoom : AwaitedBy(load)};
    waits_ += begins ? 1 : 0;
    EXPECT_FALSE(begins && static_cast<int>(load) == contention_.never_waits);
    const bool goes_on =
        asked.waits_for >= 0 ? being_read_[asked.waits_for] : ++asked.questions > kQuestionsOfAWait;
    if (!begins && !goes_on) return false;
    const bool give_up = turns_->PassBlocked(asked.waits_for, /*in_vain=*/!begins);
    asked.totals = bank_->Totals();
    return give_up;
  }

  // It walks its tensors in order, so it waits for the first that another load reads.
  int AwaitedBy(size_t load) {
    for (const int tensor : contention_.loads[load]) {
      if (being_read_[tensor]) return tensor;
    }
    ADD_FAILURE() << "it waits for an evaluation, and there is none";
    return kNothing;
  }

  void OnRead(int tensor) {
    const size_t load = Turns::Current();
    EXPECT_TRUE(absl::IsUnknown(ended_[load])) << "an evaluation after its load has ended";
    EXPECT_FALSE(being_read_[tensor]) << "two evaluations of tensor " << tensor << " at once";
    EXPECT_EQ(contention_.loads[load].count(tensor), 1u);
    reads_.emplace_back(load, tensor);
    being_read_[tensor] = true;
    turns_->Pass();
    being_read_[tensor] = false;
    asked_[load] = {.totals = bank_->Totals()};
  }

  void Check() {
    const BankTotals totals = bank_->Totals();
    std::set<int> held;
    size_t succeeded = 0;
    for (size_t i = 0; i < ended_.size(); ++i) {
      if (!ended_[i].ok()) continue;
      ++succeeded;
      held.insert(contention_.loads[i].begin(), contention_.loads[i].end());
    }
    EXPECT_GT(succeeded, 0u);
    for (size_t i = 0; i < ended_.size(); ++i) CheckEnd(i, held);
    std::map<int, size_t> evaluations;
    for (const auto& [load, tensor] : reads_) ++evaluations[tensor];
    const size_t failed = contention_.fails >= 0 && evaluations[contention_.fails] > 0 ? 1 : 0;
    EXPECT_EQ(reads_.size(), totals.evaluations + failed);
    EXPECT_LE(reads_.size(), sources_.size() + totals.evictions + failed) << "evaluated twice";
    EXPECT_LE(memory_->Usage().peak_bytes, contention_.pages * kPage);
    EXPECT_LE(totals.budget_used, contention_.pages * kPage);
    for (size_t i = 0; i < kept_.size(); ++i) CheckBytes(i);
  }

  void CheckEnd(size_t load, std::set<int> held) const {
    const absl::Status& status = ended_[load];
    if (status.ok()) return;
    if (absl::IsDataLoss(status)) {
      EXPECT_GE(contention_.fails, 0) << status;
      return;
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("'", NameOf(load), "'")))
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "the largest on the device")) << status;
    for (const auto& [reader, tensor] : reads_) {
      EXPECT_NE(reader, load) << "refused after it had evaluated tensor " << tensor;
    }
    EXPECT_TRUE(contention_.keeps) << "the others were done, and kept nothing: " << status;
    held.insert(contention_.loads[load].begin(), contention_.loads[load].end());
    EXPECT_GT(held.size(), contention_.pages) << "there was room: " << status;
  }

  void CheckBytes(size_t load) const {
    size_t at = 0;
    for (const int tensor : contention_.loads[load]) {
      if (at == kept_[load].size()) return;
      EXPECT_EQ(HostBytesAt(kept_[load][at++].address(), kPage), CountingFloats(kElements, tensor));
    }
  }

  Contention contention_;
  Turns* turns_ = nullptr;
  std::shared_ptr<HostMemory> memory_;
  std::shared_ptr<Bank> bank_;
  std::map<int, std::shared_ptr<ScriptedSource>> sources_;  // by tensor
  std::shared_ptr<const SourceIndex> index_;
  std::map<int, bool> being_read_;
  // Since its last turn began, or something happened in it.
  struct Asked {
    BankTotals totals;
    int waits_for = kNothing;
    int questions = 0;
  };
  std::map<size_t, Asked> asked_;
  std::vector<std::pair<size_t, int>> reads_;  // load and tensor
  std::vector<absl::Status> ended_;            // by load
  std::vector<std::vector<Lease>> kept_;
  size_t waits_ = 0;
};

TEST_F(LoadOrdersTest, OfTwoOnABudgetForOne) {
  for (const bool keeps : {true, false}) {
    Explore({.loads = {{1, 2}, {3, 4}}, .pages = 2, .keeps = keeps});
    Explore({.loads = {{1, 2, 3}, {4, 5}}, .pages = 3, .keeps = keeps});
    Explore({.loads = {{1, 2}, {3, 4}}, .pages = 3, .keeps = keeps});
  }
}

TEST_F(LoadOrdersTest, OfTwoThatShareATensor) {
  for (const bool keeps : {true, false}) {
    Explore({.loads = {{1, 2}, {2, 3}}, .pages = 2, .keeps = keeps});
    Explore({.loads = {{1, 2}, {2, 3}}, .pages = 3, .keeps = keeps});
    Explore({.loads = {{1, 2}, {1, 2}}, .pages = 2, .keeps = keeps});
  }
}

TEST_F(LoadOrdersTest, OfTwoOfWhichOneFails) {
  for (const int fails : {1, 2}) {
    for (const bool keeps : {true, false}) {
      Explore({.loads = {{1, 2}, {3, 4}}, .pages = 2, .keeps = keeps, .fails = fails});
      Explore({.loads = {{1, 2}, {2, 3}}, .pages = 2, .keeps = keeps, .fails = fails});
    }
  }
}

TEST_F(LoadOrdersTest, OfThreeOnABudgetForOneOrTwo) {
  for (const uint64_t pages : {2, 4}) {
    for (const bool keeps : {true, false}) {
      Explore({.loads = {{1, 2}, {3, 4}, {5, 6}},
               .pages = pages,
               .keeps = keeps,
               .at_every_tensor = false});
    }
  }
}

// A page is left beside either of the large ones, and the one that waits does not hold it.
TEST_F(LoadOrdersTest, WhoWaitsHoldsNothingThatAThirdCouldUse) {
  for (const bool keeps : {true, false}) {
    Explore({.loads = {{1, 2, 3}, {4, 5, 6}, {7}},
             .pages = 4,
             .keeps = keeps,
             .at_every_tensor = false,
             .never_waits = 2});
  }
}

TEST_F(LoadOrdersTest, OfThreeThatShareTensors) {
  for (const uint64_t pages : {2, 3}) {
    for (const bool keeps : {true, false}) {
      Explore({.loads = {{1, 2}, {2, 3}, {1, 3}},
               .pages = pages,
               .keeps = keeps,
               .at_every_tensor = false});
    }
  }
}

}  // namespace
}  // namespace npubank
