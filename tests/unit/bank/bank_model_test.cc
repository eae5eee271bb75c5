// Random operations on a bank, each followed by a look at a bank so simple that it is obviously
// right.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

constexpr int kSteps = 120'000;
constexpr int kOwners = 4;
constexpr uint64_t kPage = 4096;

// What must be true of each tensor, by file and number.
struct SimpleTensor {
  std::set<int> owners;
  std::vector<Lease> leases;
  bool resident = false;
};

struct LiveOwner {
  Owner owner;
  bool asleep = false;
};

class BankModelTest : public ::testing::Test {
 protected:
  using Key = std::pair<int, size_t>;  // file, tensor

  Uid UidOf(Key key) { return files_[key.first].Submodel()[key.second].uid(); }
  Key RandomKey() {
    const int file = static_cast<int>(random_() % files_.size());
    return {file, random_() % files_[file].size()};
  }
  void Settle(Key key) {
    const SimpleTensor& tensor = model_[key];
    if (tensor.owners.empty() && tensor.leases.empty()) model_.erase(key);
  }

  void AddOrDropOwner(int slot) {
    if (owners_.count(slot) == 0) {
      owners_[slot].owner = bank_->AddOwner(absl::StrCat("owner ", slot), {.index = index_});
      return;
    }
    owners_.erase(slot);
    std::vector<Key> keys;
    for (auto& [key, tensor] : model_) {
      if (tensor.owners.erase(slot) > 0) keys.push_back(key);
    }
    for (const Key& key : keys) Settle(key);
  }

  void Register(int slot, Key key) {
    if (owners_.count(slot) == 0) return;
    const LazyTensor tensor = files_[key.first].Submodel()[key.second];
    const auto registered = bank_->Register(owners_[slot].owner, tensor, Name(key));
    ASSERT_TRUE(registered.ok()) << registered.status();
    ASSERT_EQ(registered->hit, model_.count(key) == 1);
    ASSERT_EQ(tensor.detached(), registered->hit);
    model_[key].owners.insert(slot);
  }

  void Evaluate(int slot) {
    if (owners_.count(slot) == 0) return;
    const absl::StatusOr<std::vector<Lease>> leases = bank_->Load(owners_[slot].owner);
    ASSERT_TRUE(leases.ok()) << leases.status();
    owners_[slot].asleep = false;
    for (auto& [key, tensor] : model_) tensor.resident |= tensor.owners.count(slot) > 0;
  }

  void Get(Key key) {
    absl::StatusOr<Lease> lease = bank_->Get(UidOf(key));
    ASSERT_EQ(lease.ok(), model_.count(key) == 1) << lease.status();
    if (!lease.ok()) return;
    ASSERT_EQ(HostBytesAt(lease->address(), lease->type().bytes()),
              files_[key.first].Expected(key.second));
    model_[key].resident = true;
    model_[key].leases.push_back(*std::move(lease));
  }

  void DropLease(Key key) {
    const auto found = model_.find(key);
    if (found == model_.end() || found->second.leases.empty()) return;
    found->second.leases.pop_back();
    Settle(key);
  }

  void SleepOrWake(int slot) {
    if (owners_.count(slot) == 0) return;
    LiveOwner& owner = owners_[slot];
    if (owner.asleep) return Evaluate(slot);
    owner.asleep = true;
    ASSERT_TRUE(bank_->Sleep(owner.owner, {.keep_host_copy = random_() % 2 == 0}).ok());
    for (auto& [key, tensor] : model_) {
      if (tensor.owners.count(slot) == 0 || !tensor.leases.empty()) continue;
      bool all_asleep = true;
      for (const int other : tensor.owners) all_asleep &= owners_[other].asleep;
      if (all_asleep) tensor.resident = false;
    }
  }

  void Compare() {
    uint64_t resident = 0;
    for (const auto& [key, tensor] : model_) resident += tensor.resident ? 1 : 0;
    const BankTotals totals = bank_->Totals();
    ASSERT_EQ(totals.unique_tensors, model_.size());
    ASSERT_EQ(memory_->Usage().live_bytes, resident * kPage);
    ASSERT_EQ(totals.budget_used, resident * kPage);
    const AuditReport report = bank_->Audit();
    ASSERT_TRUE(report.clean()) << report.ToString();
  }

  std::string Name(Key key) const { return absl::StrCat("file", key.first, ".", key.second); }

  std::mt19937 random_{PrintedSeed()};
  std::deque<TestWeights> files_;
  std::shared_ptr<const SourceIndex> index_;
  std::shared_ptr<HostMemory> memory_ = std::make_shared<HostMemory>();
  std::shared_ptr<Bank> bank_ = Bank::Create(memory_, {.share_content = false});
  std::map<Key, SimpleTensor> model_;
  std::map<int, LiveOwner> owners_;
};

TEST_F(BankModelTest, AgreesWithASimpleBankOverManyRandomOperations) {
  files_.emplace_back(3);
  index_ = files_[0].Index();
  for (int step = 0; step < Repetitions(kSteps) && !HasFatalFailure(); ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    const int slot = static_cast<int>(random_() % kOwners);
    switch (random_() % 10) {
      case 0:
        AddOrDropOwner(slot);
        break;
      case 1:
      case 2:
      case 3:
        Register(slot, RandomKey());
        break;
      case 4:
        Evaluate(slot);
        break;
      case 5:
      case 6:
        Get(RandomKey());
        break;
      case 7:
      case 8:
        DropLease(RandomKey());
        break;
      default:
        SleepOrWake(slot);
    }
    if (!HasFatalFailure()) Compare();
  }
  owners_.clear();
  model_.clear();
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

}  // namespace
}  // namespace npubank
