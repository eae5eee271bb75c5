// Random owners who want tensors at random places, beside a model so simple that it is obviously right.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/books/audit.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/pooled_memory.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/temporary_file.h"
#include "npubank/tests/support/weights/constants_index.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

constexpr int kSteps = 60'000;
constexpr size_t kOwners = 4;
constexpr uint64_t kPage = PooledMemory::kPage;
// Where the tensors lie in their file: four kinds of places, two of which can be imported.
constexpr uint64_t kOffsets[] = {0, 64, kPage, 512, 3 * kPage, 2 * kPage + 128};
constexpr size_t kElements = 1024;

// Where one lies, as it was when it was loaded.
struct Place {
  uint64_t alignment = 0;
  uint64_t pool = 0;
  bool imported = false;
};

struct SimpleTensor {
  std::map<size_t, MemoryHints> asked;  // by owner
  std::vector<Lease> leases;
  bool resident = false;
  Place place;

  MemoryHints Together() const {
    MemoryHints all;
    for (const auto& [owner, hints] : asked) {
      if (hints.alignment > all.alignment) all.alignment = hints.alignment;
      if (hints.pool != 0) all.pool = hints.pool;
    }
    return all;
  }
};

class MemoryHintsModelTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    memory_->imports = GetParam();
    std::vector<RecipePtr> recipes;
    for (size_t i = 0; i < tensors_.size(); ++i) recipes.push_back(Tensor(i).recipe());
    index_ = ConstantsIndex(recipes);
  }
  LazyTensor Tensor(size_t number) const {
    const auto shape = Shape::Create({static_cast<int64_t>(kElements)}).value();
    return LazyTensor::Constant(source_, kOffsets[number],
                                TensorType::Create(ElementType::kF32, shape).value(),
                                absl::StrCat("w", number))
        .value();
  }
  uint64_t Below(uint64_t n) { return random_() % n; }
  // Half ask for nothing; nothing below what every address has.
  MemoryHints RandomHints() {
    MemoryHints hints;
    if (Below(2) == 0) hints.alignment = uint64_t{64} << Below(10);
    if (Below(4) == 0) hints.pool = 1 + Below(2);
    if (hints.alignment == 64) hints.alignment = 0;
    return hints;
  }
  Uid UidOf(size_t tensor) { return Tensor(tensor).uid(); }

  bool MayRegister(size_t number, const MemoryHints& hints) const {
    const SimpleTensor& tensor = tensors_[number];
    for (const auto& [owner, others] : tensor.asked)
      if (hints.pool != 0 && others.pool != 0 && hints.pool != others.pool) return false;
    return Fits(number, hints) || tensor.leases.empty();
  }
  bool Fits(size_t number, const MemoryHints& hints) const {
    const SimpleTensor& tensor = tensors_[number];
    if (!tensor.resident) return true;
    // A mapping may lie better than on a page, by chance.
    const uint64_t alignment = tensor.place.imported
                                   ? bank_->Inspect(Tensor(number).uid())->device_address
                                   : tensor.place.alignment;
    return alignment % std::max<uint64_t>(hints.alignment, 64) == 0 &&
           (hints.pool == 0 || hints.pool == tensor.place.pool);
  }

  void Register(size_t slot, size_t number) {
    if (!owners_[slot]) owners_[slot] = std::make_unique<Owner>(AddOwner(slot));
    SimpleTensor& tensor = tensors_[number];
    const MemoryHints hints = RandomHints();
    const bool may = MayRegister(number, hints), stays = Fits(number, hints);
    const auto registered = bank_->Register(*owners_[slot], Tensor(number), "wq", hints);
    ASSERT_EQ(registered.ok(), may) << hints.ToString() << " beside "
                                    << tensor.Together().ToString() << ": " << registered.status();
    if (!may) return;
    tensor.resident &= stays;
    MemoryHints& asked = tensor.asked[slot];
    asked.alignment = std::max(asked.alignment, hints.alignment);
    if (hints.pool != 0) asked.pool = hints.pool;
  }
  Owner AddOwner(size_t slot) {
    return bank_->AddOwner(absl::StrCat("owner ", slot), {.index = index_});
  }
  void Load(size_t slot) {
    if (!owners_[slot]) return;
    ASSERT_TRUE(bank_->EvaluateAndAllocate(*owners_[slot]).ok());
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (tensors_[i].asked.contains(slot)) NoteResident(i);
  }
  void NoteResident(size_t number) {
    SimpleTensor& tensor = tensors_[number];
    if (tensor.resident) return;
    const MemoryHints hints = tensor.Together();
    tensor.resident = true;
    tensor.place = {.alignment = std::max<uint64_t>(hints.alignment, 64),
                    .pool = hints.pool,
                    .imported = memory_->imports && kOffsets[number] % kPage == 0 &&
                                hints.alignment <= kPage && hints.pool == 0};
  }
  void Lease(size_t number) {
    SimpleTensor& tensor = tensors_[number];
    auto lease = bank_->Get(UidOf(number));
    ASSERT_EQ(lease.ok(), !tensor.asked.empty() || !tensor.leases.empty()) << lease.status();
    if (!lease.ok()) return;
    NoteResident(number);
    tensor.leases.push_back(*std::move(lease));
  }
  void Release(size_t slot) {
    owners_[slot].reset();
    for (SimpleTensor& tensor : tensors_) {
      tensor.asked.erase(slot);
      Settle(tensor);
    }
  }
  void DropLease(SimpleTensor& tensor) {
    if (!tensor.leases.empty()) tensor.leases.pop_back();
    Settle(tensor);
  }
  static void Settle(SimpleTensor& tensor) {
    if (tensor.asked.empty() && tensor.leases.empty()) tensor = {};
  }
  void EvictAll() {
    while (bank_->Evict(1)) {
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      SimpleTensor& tensor = tensors_[i];
      // What takes no room need not leave to make some.
      const bool stayed = tensor.resident && tensor.place.imported &&
                          bank_->Inspect(Tensor(i).uid())->state == "resident";
      tensor.resident = stayed || !tensor.leases.empty();
    }
  }

  void Compare() {
    uint64_t resident = 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const SimpleTensor& tensor = tensors_[i];
      resident += tensor.resident ? 1 : 0;
      for (const auto& lease : tensor.leases) {
        const Place& place = tensor.place;
        ASSERT_EQ(lease.strategy(), place.imported    ? "imported"
                                    : place.pool == 0 ? "host"
                                                      : absl::StrCat("pool ", place.pool));
        const auto address = reinterpret_cast<uintptr_t>(lease.address());
        ASSERT_EQ(address % place.alignment, 0u);
        ASSERT_EQ(HostBytesAt(lease.address(), lease.bytes()),
                  CountingFloats(kElements, 1 + static_cast<float>(kOffsets[i] / sizeof(float))));
      }
      const auto told = bank_->Inspect(UidOf(i));
      if (!told.ok()) continue;
      ASSERT_EQ(told->alignment, tensor.Together().alignment);
      ASSERT_EQ(told->pool, tensor.Together().pool);
    }
    ASSERT_EQ(memory_->Usage().live_allocations, resident);
    ASSERT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
  }

  std::mt19937 random_{PrintedSeed()};
  const testing::TemporaryFile file_{CountingFloats(4 * kPage / sizeof(float))};
  std::shared_ptr<Source> source_ = Source::OpenFile(file_.path()).value();
  std::shared_ptr<const SourceIndex> index_;
  std::shared_ptr<PooledMemory> memory_ = std::make_shared<PooledMemory>();
  std::shared_ptr<Bank> bank_ = Bank::Create(memory_, {});
  std::vector<SimpleTensor> tensors_{std::size(kOffsets)};
  std::vector<std::unique_ptr<Owner>> owners_{kOwners};
};

TEST_P(MemoryHintsModelTest, EveryTensorLiesWhereAllOfItsOwnersWantIt) {
  for (int step = 0; step < Repetitions(kSteps) && !HasFatalFailure(); ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    const size_t slot = Below(kOwners), number = Below(tensors_.size());
    switch (Below(10)) {
      case 0:
        Release(slot);
        break;
      case 1:
        EvictAll();
        break;
      case 2:
      case 3:
        Load(slot);
        break;
      case 4:
        Lease(number);
        break;
      case 5:
      case 6:
        DropLease(tensors_[number]);
        break;
      default:
        Register(slot, number);
    }
    if (!HasFatalFailure()) Compare();
  }
  for (size_t slot = 0; slot < kOwners; ++slot) Release(slot);
  for (SimpleTensor& tensor : tensors_) tensor = {};
  bank_.reset();
  index_.reset();
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

INSTANTIATE_TEST_SUITE_P(Import, MemoryHintsModelTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "on" : "off"; });

}  // namespace
}  // namespace npubank
