// Every order in which submodels are loaded, evaluated, run, put to sleep, woken and dropped:
// enumerated. After each step the device, the source accounting and the audit are compared with a
// model of a few lines.
//
// A life is what one submodel goes through, a letter for each step. All interleavings of all
// combinations of lives are walked; steps that mean nothing where they stand (running what was not
// evaluated, waking what does not sleep) are in no life. What an order has in common with the one
// before it is done again but not checked again.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lazy_tensor/retention.h"
#include "tests/leak/leak_test.h"

namespace npubank {
namespace {

constexpr int64_t kElements = 8;
constexpr uint64_t kSourceBytes = kElements * sizeof(float);

// One weight of two models that share all but their last: a fine-tune and its base.
struct Weight {
  std::set<size_t> owners;
  bool holds_source = true;
  bool resident = false;
};

class OrdersLeakTest : public LeakTest {
 protected:
  using Lives = std::vector<std::string>;

  static int WeightOf(int model, int number) { return number == 0 ? 0 : 1 + model; }

  RecipePtr MakeRecipe(int weight) const {
    const TensorType type =
        TensorType::Create(ElementType::kF32, Shape::Create({kElements}).value()).value();
    const RecipePtr stored =
        Recipe::Constant(source_, weight * kSourceBytes, type, absl::StrCat(weight)).value();
    return Recipe::Convert(stored, ElementType::kF16).value();
  }

  // Walks all orders of these lives; submodel i is of the model models[i].
  void Walk(const Lives& lives, const std::vector<int>& models) {
    lives_ = lives;
    models_ = models;
    order_.clear();
    checked_.clear();
    std::vector<size_t> done(lives.size(), 0);
    Extend(done);
  }

  void Extend(std::vector<size_t>& done) {
    bool complete = true;
    for (size_t i = 0; i < lives_.size(); ++i) {
      if (done[i] == lives_[i].size() || IsMirrored(i, done)) continue;
      complete = false;
      ++done[i];
      order_.push_back(i);
      Extend(done);
      order_.pop_back();
      --done[i];
      if (HasFatalFailure()) return;
    }
    if (complete && done == Ends()) Replay();
  }
  std::vector<size_t> Ends() const {
    std::vector<size_t> ends;
    for (const std::string& life : lives_) ends.push_back(life.size());
    return ends;
  }
  // Two submodels of one model with one life are the same: the first of them begins first.
  bool IsMirrored(size_t i, const std::vector<size_t>& done) const {
    return i > 0 && done[i] == 0 && done[i - 1] == 0 && lives_[i] == lives_[i - 1] &&
           models_[i] == models_[i - 1];
  }

  void Replay() {
    ++orders_;
    const size_t same =
        std::mismatch(order_.begin(), order_.end(), checked_.begin(), checked_.end()).first -
        order_.begin();
    checked_ = order_;
    const auto bank = Bank::Create(device_, {.share_content = false});
    std::map<int, Weight> weights;
    std::vector<Owner> owners(lives_.size());
    std::vector<bool> asleep(lives_.size(), false);
    std::vector<size_t> done(lives_.size(), 0);
    std::string so_far;
    for (size_t step = 0; step < order_.size(); ++step) {
      const size_t i = order_[step];
      const char what = lives_[i][done[i]++];
      absl::StrAppend(&so_far, i, std::string(1, what), " ");
      Step(*bank, what, i, owners, asleep, weights);
      if (step >= same) Check(*bank, weights);
      ASSERT_FALSE(HasFailure()) << "after " << so_far << "of models "
                                 << absl::StrCat(models_[0], models_.back());
    }
  }

  void Step(Bank& bank, char what, size_t i, std::vector<Owner>& owners, std::vector<bool>& asleep,
            std::map<int, Weight>& weights) {
    switch (what) {
      case 'L':
        owners[i] = bank.AddOwner(absl::StrCat("submodel ", i), {.resolver = resolver_});
        for (const int number : {0, 1}) {
          const int weight = WeightOf(models_[i], number);
          const auto known = bank.Register(owners[i], LazyTensor(MakeRecipe(weight)), "w");
          ASSERT_TRUE(known.ok()) << known.status();
          ASSERT_EQ(known->hit, weights.count(weight) == 1);
          weights[weight].owners.insert(i);
        }
        return;
      case 'E':
        ASSERT_TRUE(bank.EvaluateAndAllocate(owners[i]).ok());
        return Evaluated(i, weights);
      case 'R':
        for (const int number : {0, 1}) Run(bank, WeightOf(models_[i], number));
        return;
      case 'S':
        ASSERT_TRUE(bank.Sleep(owners[i]).ok());
        asleep[i] = true;
        for (auto& [number, weight] : weights) {
          if (weight.owners.count(i) == 0) continue;
          bool awake = false;
          for (const size_t owner : weight.owners) awake |= !asleep[owner];
          weight.resident &= awake;
        }
        return;
      case 'W':
        ASSERT_TRUE(bank.Wake(owners[i]).ok());
        asleep[i] = false;
        return Evaluated(i, weights);
      default:
        owners[i].Release();
        for (auto& [number, weight] : weights) weight.owners.erase(i);
        std::erase_if(weights, [](const auto& entry) { return entry.second.owners.empty(); });
    }
  }

  static void Evaluated(size_t i, std::map<int, Weight>& weights) {
    for (auto& [number, weight] : weights) {
      if (weight.owners.count(i) == 0) continue;
      weight.resident = true;
      weight.holds_source = false;
    }
  }

  void Run(Bank& bank, int weight) {
    const Uid uid = Uid::Of(MakeRecipe(weight)->digest());
    const auto lease = bank.Get(uid);
    ASSERT_TRUE(lease.ok()) << lease.status();
    std::vector<std::byte> bytes(lease->type().bytes());
    ASSERT_TRUE(bank.Read(uid, 0, absl::MakeSpan(bytes)).ok());
    ASSERT_EQ(bytes, expected_[weight]);
  }

  // By the device, by the source accounting, and by the audit.
  void Check(const Bank& bank, const std::map<int, Weight>& weights) {
    uint64_t resident = 0;
    uint64_t source_bytes = 0;
    for (const auto& [number, weight] : weights) {
      resident += weight.resident ? 1 : 0;
      source_bytes += weight.holds_source ? kSourceBytes : 0;
    }
    ASSERT_EQ(device_->Usage().live_allocations, resident);
    ASSERT_EQ(LiveSourceBytes(), source_bytes) << DescribeHeldSources();
    const AuditReport audit = bank.Audit();
    ASSERT_TRUE(audit.clean()) << audit.ToString();
    ASSERT_EQ(audit.source_bytes_booked, source_bytes);
  }

  void SetUp() override {
    LeakTest::SetUp();
    for (int weight = 0; weight < 3; ++weight) {
      std::vector<std::byte>& bytes = expected_.emplace_back(kElements * 2);
      ASSERT_TRUE(npubank::Evaluate(*MakeRecipe(weight), absl::MakeSpan(bytes), {}).ok());
    }
  }

  std::shared_ptr<Source> source_ = Source::FromBuffer(CountingFloats(3 * kElements), "models");
  RecipeResolver resolver_ = [this](absl::string_view name) -> absl::StatusOr<RecipePtr> {
    return MakeRecipe(name[0] - '0')->inputs()[0];
  };
  std::vector<std::vector<std::byte>> expected_;
  Lives lives_;
  std::vector<int> models_;
  std::vector<size_t> order_;    // whose turn it is
  std::vector<size_t> checked_;  // the order before this one
  int orders_ = 0;
};

// Everything that can happen to one submodel, in the orders that mean something.
const std::vector<std::string>& AllLives() {
  static const auto* const lives = new std::vector<std::string>{
      "LD",    "LED",    "LERD",   "LSD",     "LSWD",  "LESD",  "LESWD",
      "LERSD", "LERSWD", "LESWRD", "LERSWRD", "LESED", "LEESWD"};
  return *lives;
}

TEST_P(OrdersLeakTest, OfOneSubmodel) {
  for (const std::string& life : AllLives()) Walk({life}, {0});
}

TEST_P(OrdersLeakTest, OfTwoSubmodelsOfOneModelAndOfTwo) {
  for (const std::string& first : AllLives()) {
    for (const std::string& second : AllLives()) {
      if (first <= second) Walk({first, second}, {0, 0});
      Walk({first, second}, {0, 1});
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  std::printf("%d orders\n", orders_);
}

TEST_P(OrdersLeakTest, OfThreeSubmodelsOfTwoModels) {
  const std::vector<Lives> combinations = {
      {"LED", "LED", "LED"},   {"LESD", "LESD", "LED"}, {"LED", "LED", "LESD"},
      {"LESWD", "LED", "LED"}, {"LED", "LED", "LESWD"}, {"LERD", "LSWD", "LESD"},
      {"LESWD", "LSD", "LD"},  {"LERSWD", "LD", "LED"},
  };
  for (const Lives& lives : combinations) {
    for (const std::vector<int>& models : {std::vector<int>{0, 0, 0}, std::vector<int>{0, 0, 1}}) {
      Walk(lives, models);
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  std::printf("%d orders\n", orders_);
}

// The first device only: each order makes a bank of its own, and there are very many.
INSTANTIATE_TEST_SUITE_P(On, OrdersLeakTest, ::testing::Values(DevicesUnderTest().front()),
                         [](const ::testing::TestParamInfo<DeviceUnderTest>& device) {
                           return device.param.name;
                         });

}  // namespace
}  // namespace npubank
