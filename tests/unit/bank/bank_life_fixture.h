// BankLifeTest: a bank on host memory, models to load on it, and nothing left at the end.
#ifndef NPUBANK_TESTS_UNIT_BANK_BANK_LIFE_FIXTURE_H_
#define NPUBANK_TESTS_UNIT_BANK_BANK_LIFE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {

constexpr uint64_t kPage = 4096;  // each tensor here takes one

struct Model {
  Owner owner;
  std::vector<Uid> uids;
};

class BankLifeTest : public ::testing::Test {
 protected:
  void Make(BankOptions options, HostMemory::Options memory = {}) {
    memory_ = std::make_shared<HostMemory>(memory);
    bank_ = Bank::Create(memory_, std::move(options));
  }

  void TearDown() override {
    if (bank_ == nullptr) return;
    EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
    bank_.reset();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u);
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  }

  Model Register(const std::string& name, const TestWeights& weights, bool can_return = true) {
    Model model;
    model.owner = bank_->AddOwner(name, {.index = can_return ? weights.Index() : nullptr});
    const std::vector<LazyTensor> tensors = weights.Submodel();
    for (size_t i = 0; i < tensors.size(); ++i) {
      model.uids.push_back(
          bank_->Register(model.owner, tensors[i], absl::StrCat(name, ".", i)).value().uid);
    }
    return model;
  }

  Model Load(const std::string& name, const TestWeights& weights, bool can_return = true) {
    Model model = Register(name, weights, can_return);
    const absl::Status status = bank_->EvaluateAndAllocate(model.owner);
    EXPECT_TRUE(status.ok()) << status;
    return model;
  }

  void ExpectContents(const Model& model, const TestWeights& weights) {
    for (size_t i = 0; i < model.uids.size(); ++i) {
      std::vector<std::byte> bytes(weights.Expected(i).size());
      const absl::Status status = bank_->Read(model.uids[i], 0, absl::MakeSpan(bytes));
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(bytes, weights.Expected(i)) << i;
    }
  }

  uint64_t Live() const { return memory_->Usage().live_bytes; }

  std::shared_ptr<HostMemory> memory_;
  std::shared_ptr<Bank> bank_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_BANK_BANK_LIFE_FIXTURE_H_
