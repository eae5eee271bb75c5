// Where a tensor should lie in a device's memory: an alignment and a pool, from whoever registers it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/host_memory.h"
#include "npubank/bank/upstream.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/pooled_memory.h"
#include "npubank/tests/support/temporary_file.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr uint64_t kPage = PooledMemory::kPage;
constexpr uint64_t kHuge = PooledMemory::kMost;

bool LiesAt(const Lease& lease, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(lease.address()) % alignment == 0;
}

class MemoryHintsTest : public ::testing::Test {
 protected:
  void SetUp() override { Make({}); }
  void Make(BankOptions options) {
    memory_ = std::make_shared<PooledMemory>();
    bank_ = Bank::Create(memory_, std::move(options));
  }
  void TearDown() override {
    EXPECT_TRUE(bank_->Audit().clean()) << bank_->Audit().ToString();
    bank_.reset();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u);
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
  }
  Owner AddOwner(const std::string& name) {
    return bank_->AddOwner(name, {.index = weights_.Index()});
  }
  absl::Status Register(const Owner& owner, const MemoryHints& hints, size_t tensor = 0) {
    return bank_->Register(owner, weights_.Submodel()[tensor], "wq", hints).status();
  }
  Lease Load(const Owner& owner) {
    auto leases = bank_->Load(owner);
    EXPECT_TRUE(leases.ok()) << leases.status();
    return leases.ok() ? leases->front() : Lease();
  }
  void ExpectRefused(const absl::Status& status, absl::StatusCode code, const std::string& words) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'wq'"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
  void ExpectContents(const Lease& lease, size_t tensor = 0) {
    EXPECT_EQ(HostBytesAt(lease.address(), lease.bytes()), weights_.Expected(tensor));
  }
  TestWeights weights_{2};
  std::shared_ptr<PooledMemory> memory_;
  std::shared_ptr<Bank> bank_;
};

TEST_F(MemoryHintsTest, AnAddressIsAMultipleOfWhatItsOwnerAsksFor) {
  for (uint64_t alignment = 1; alignment <= kHuge; alignment *= 2) {
    SCOPED_TRACE(alignment);
    const Owner owner = AddOwner("prefill");
    ASSERT_TRUE(Register(owner, {.alignment = alignment}).ok());
    const Lease lease = Load(owner);
    EXPECT_TRUE(LiesAt(lease, alignment));
    ExpectContents(lease);
  }
}

TEST_F(MemoryHintsTest, WhatIsNoPowerOfTwoIsRefusedByNameAndNothingIsRegistered) {
  const Owner owner = AddOwner("prefill");
  for (const uint64_t alignment : {uint64_t{3}, uint64_t{96}, kPage + 64, ~uint64_t{0}}) {
    ExpectRefused(Register(owner, {.alignment = alignment}), absl::StatusCode::kInvalidArgument,
                  absl::StrCat("an alignment of ", alignment, ": it is a power of two"));
  }
  EXPECT_EQ(bank_->Totals().unique_tensors, 0u);
}

TEST_F(MemoryHintsTest, WhatTheMemoryCannotDoIsRefusedByNameWhenItIsRegistered) {
  const Owner owner = AddOwner("prefill");
  ExpectRefused(Register(owner, {.alignment = 2 * kHuge}), absl::StatusCode::kUnimplemented,
                "pooled memory puts nothing at a multiple of 4194304");
  ExpectRefused(Register(owner, {.alignment = uint64_t{1} << 63}), absl::StatusCode::kUnimplemented,
                "at a multiple of 9223372036854775808");
  ExpectRefused(Register(owner, {.pool = 3}), absl::StatusCode::kUnimplemented, "pool 3");
  EXPECT_EQ(bank_->Totals().unique_tensors, 0u);
}

// Knows nothing of hints.
class PlainMemory final : public DeviceMemory {
 public:
  std::string name() const override { return "plain"; }
  absl::StatusOr<std::unique_ptr<DeviceAllocation>> Allocate(uint64_t bytes,
                                                             absl::string_view name) override {
    return memory_.Allocate(bytes, name);
  }
  absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override {
    return memory_.Write(memory, produce);
  }
  absl::Status Read(DeviceAllocation& memory, uint64_t offset, absl::Span<std::byte> out) override {
    return memory_.Read(memory, offset, out);
  }
  DeviceUsage Usage() const override { return memory_.Usage(); }
  absl::StatusOr<uint64_t> DriverBytes() const override { return memory_.DriverBytes(); }

 private:
  HostMemory memory_;
};

TEST_F(MemoryHintsTest, AMemoryThatKnowsNothingOfHintsRefusesThemButWhatEveryAddressHas) {
  const auto plain = Bank::Create(std::make_shared<PlainMemory>(), {});
  const Owner owner = plain->AddOwner("prefill");
  const auto registered = [&](const MemoryHints& hints) {
    return plain->Register(owner, weights_.Submodel()[0], "wq", hints).status();
  };
  ExpectRefused(registered({.alignment = 128}), absl::StatusCode::kUnimplemented,
                "plain puts nothing at a multiple of 128: its addresses are multiples of 64");
  ExpectRefused(registered({.pool = 1}), absl::StatusCode::kUnimplemented, "it has no pools");
  EXPECT_TRUE(registered({.alignment = 64}).ok());
  EXPECT_TRUE(plain->EvaluateAndAllocate(owner).ok());
}

TEST_F(MemoryHintsTest, ATensorLiesInThePoolThatAnyOfItsOwnersNames) {
  const Owner prefill = AddOwner("prefill"), kvcache = AddOwner("kvcache");
  ASSERT_TRUE(Register(prefill, {.pool = 2}).ok());
  ASSERT_TRUE(Register(kvcache, {}).ok());
  EXPECT_EQ(Load(kvcache).strategy(), "pool 2");
  EXPECT_EQ(Load(prefill).strategy(), "pool 2");
}

TEST_F(MemoryHintsTest, OwnersWhoNameDifferentPoolsAreToldWhoHasIt) {
  Owner prefill = AddOwner("prefill");
  const Owner kvcache = AddOwner("kvcache");
  ASSERT_TRUE(Register(prefill, {.pool = 2}).ok());
  ExpectRefused(Register(kvcache, {.pool = 1}), absl::StatusCode::kFailedPrecondition,
                "owner 'prefill' has it in pool 2");
  ExpectRefused(Register(prefill, {.pool = 1}), absl::StatusCode::kFailedPrecondition,
                "owner 'prefill' has it in pool 2");
  prefill.Release();
  EXPECT_TRUE(Register(kvcache, {.pool = 1}).ok());
  EXPECT_EQ(Load(kvcache).strategy(), "pool 1");
}

TEST_F(MemoryHintsTest, TheLargestAlignmentOfAllOwnersCountsForAsLongAsItsOwnerHasIt) {
  Owner coarse = AddOwner("coarse");
  const Owner fine = AddOwner("fine");
  ASSERT_TRUE(Register(fine, {.alignment = 128}).ok());
  ASSERT_TRUE(Register(coarse, {.alignment = kHuge}).ok());
  ASSERT_TRUE(Register(coarse, {}).ok()) << "who registers again keeps what was asked for";
  const Uid uid = weights_.Submodel()[0].uid();
  EXPECT_EQ(bank_->Inspect(uid)->alignment, kHuge);
  EXPECT_TRUE(LiesAt(Load(fine), kHuge));
  coarse.Release();
  EXPECT_EQ(bank_->Inspect(uid)->alignment, 128u);
  EXPECT_EQ(bank_->Inspect(uid)->state, "resident") << "it lies well enough";
}

TEST_F(MemoryHintsTest, WhatIsIdleElsewhereLeavesAndComesBackWhereItIsWanted) {
  const Owner before = AddOwner("before"), after = AddOwner("after");
  ASSERT_TRUE(Register(before, {}).ok());
  for (const MemoryHints& hints : {MemoryHints{.alignment = 128}, MemoryHints{.pool = 1}}) {
    ASSERT_TRUE(bank_->EvaluateAndAllocate(before).ok());
    ASSERT_TRUE(Register(after, hints).ok());
    EXPECT_EQ(memory_->Usage().live_allocations, 0u) << hints.ToString();
  }
  EXPECT_EQ(bank_->Totals().evictions, 2u);
  const Lease lease = Load(before);
  EXPECT_TRUE(LiesAt(lease, 128));
  EXPECT_EQ(lease.strategy(), "pool 1");
  ExpectContents(lease);
}

TEST_F(MemoryHintsTest, WhatNobodyOwnsAnyMoreIsMadeAnewWhereItIsWanted) {
  Make({.keep_unowned = true});
  Owner gone = AddOwner("gone");
  ASSERT_TRUE(Register(gone, {}).ok());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(gone).ok());
  gone.Release();
  ASSERT_EQ(memory_->Usage().live_allocations, 1u);
  const Owner next = AddOwner("next");
  ASSERT_TRUE(Register(next, {.pool = 1}).ok());
  EXPECT_EQ(Load(next).strategy(), "pool 1");
}

TEST_F(MemoryHintsTest, WhatIsLeasedElsewhereIsRefusedByNameAndStaysAsItIs) {
  const Owner before = AddOwner("before"), after = AddOwner("after");
  ASSERT_TRUE(Register(before, {}).ok());
  Lease lease = Load(before);
  ExpectRefused(Register(after, {.pool = 1}), absl::StatusCode::kFailedPrecondition,
                "leased: drop its leases, or register it before it is loaded");
  EXPECT_EQ(bank_->Inspect(lease.uid())->owners.size(), 1u);
  ExpectContents(lease);
  lease = Lease();
  EXPECT_TRUE(Register(after, {.pool = 1}).ok());
}

TEST_F(MemoryHintsTest, WhatCannotComeBackIsRefusedByNameAndStaysAsItIs) {
  const Owner before = bank_->AddOwner("before");  // no index
  const Owner after = AddOwner("after");
  ASSERT_TRUE(Register(before, {}).ok());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(before).ok());
  ExpectRefused(Register(after, {.pool = 1}), absl::StatusCode::kFailedPrecondition,
                "cannot be brought back: release its owner");
  ExpectContents(Load(before));
}

TEST_F(MemoryHintsTest, WhatIsBeingPutElsewhereIsRefusedByNameUntilItIsThere) {
  const Owner before = AddOwner("before"), after = AddOwner("after");
  ASSERT_TRUE(Register(before, {.alignment = 256}).ok());
  absl::Status meanwhile, weaker;
  memory_->on_write = [&] {
    meanwhile = Register(after, {.alignment = kHuge});
    weaker = Register(after, {.alignment = 128});
  };
  ASSERT_TRUE(bank_->EvaluateAndAllocate(before).ok());
  memory_->on_write = nullptr;
  ExpectRefused(meanwhile, absl::StatusCode::kFailedPrecondition, "being put elsewhere right now");
  EXPECT_TRUE(weaker.ok()) << weaker;
  EXPECT_TRUE(Register(after, {.alignment = kHuge}).ok());
  EXPECT_TRUE(LiesAt(Load(after), kHuge));
}

TEST_F(MemoryHintsTest, ATensorOfNoBytesLiesEverywhere) {
  const TensorType type =
      TensorType::Create(ElementType::kF16, Shape::Create({0, 4}).value()).value();
  const Owner owner = AddOwner("prefill");
  for (const uint64_t pool : {0, 1, 1}) {
    ASSERT_TRUE(bank_->Register(owner, LazyTensor::Splat(type, 0).value(), "none",
                                {.alignment = kHuge, .pool = pool})
                    .ok());
    EXPECT_EQ(Load(owner).address(), nullptr);
  }
}

TEST_F(MemoryHintsTest, EqualBytesShareMemoryOnlyWhereItLiesAsBothWantIt) {
  const TestWeights copy(2);
  const Owner original = AddOwner("original");
  const auto load = [&](const MemoryHints& hints) {
    const Owner owner = bank_->AddOwner("copy", {.index = copy.Index()});
    EXPECT_TRUE(bank_->Register(owner, copy.Submodel()[0], "wq", hints).ok());
    const Lease lease = bank_->Load(owner).value().front();
    EXPECT_EQ(HostBytesAt(lease.address(), lease.bytes()), weights_.Expected(0));
    return lease.address();
  };
  ASSERT_TRUE(Register(original, {}).ok());
  Lease first = Load(original);
  EXPECT_EQ(load({}), first.address());
  EXPECT_EQ(load({.alignment = 64}), first.address());
  EXPECT_NE(load({.pool = 1}), first.address());
  EXPECT_NE(load({.alignment = 128}), first.address());
}

TEST_F(MemoryHintsTest, HostCopiesComeBackWhereTheTensorIsWanted) {
  const Owner owner = AddOwner("prefill");
  ASSERT_TRUE(Register(owner, {.alignment = kHuge, .pool = 2}).ok());
  ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  ASSERT_TRUE(bank_->Sleep(owner, {.keep_host_copy = true}).ok());
  ASSERT_EQ(memory_->Usage().live_allocations, 0u);
  const Lease lease = Load(owner);
  EXPECT_TRUE(LiesAt(lease, kHuge));
  EXPECT_EQ(lease.strategy(), "pool 2");
  ExpectContents(lease);
}

TEST_F(MemoryHintsTest, WhatComesFromACacheLiesWhereItIsWanted) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/weights.cache";
  for (const bool imports : {false, true}) {
    for (const bool warm : {false, true}) {
      const auto cache = CacheFile::Open({.path = path});
      Make({.cache = cache});
      memory_->imports = imports;
      const Owner owner = AddOwner("prefill");
      ASSERT_TRUE(Register(owner, {.alignment = kHuge, .pool = 1}).ok());
      ASSERT_TRUE(Register(owner, {.alignment = kPage}, 1).ok());
      const std::vector<Lease> leases = bank_->Load(owner).value();
      EXPECT_TRUE(LiesAt(leases[0], kHuge));
      EXPECT_EQ(leases[0].strategy(), "pool 1") << "not the pages of the cache's file";
      EXPECT_TRUE(LiesAt(leases[1], kPage));
      EXPECT_EQ(bank_->Totals().transformations, warm || imports ? 0u : 2u);
      ExpectContents(leases[0]);
      ASSERT_TRUE(cache->Save().ok());
    }
  }
}

// Two pages of a file, which a memory that imports takes as they are.
class MemoryHintsImportTest : public MemoryHintsTest {
 protected:
  void SetUp() override {
    Make({});
    memory_->imports = true;
    source_ = Source::OpenFile(file_.path()).value();
  }
  void TearDown() override {
    source_.reset();
    MemoryHintsTest::TearDown();
  }
  Lease LoadSecondPage(const MemoryHints& hints) {
    const Owner owner = bank_->AddOwner("prefill");
    EXPECT_TRUE(bank_->Register(owner, VectorsOver(source_, 1024)[1], "wq", hints).ok());
    const Lease lease = bank_->Load(owner).value().front();
    origin_ = bank_->Inspect(lease.uid())->origin;
    return lease;
  }
  const testing::TemporaryFile file_{CountingFloats(2048)};
  std::shared_ptr<Source> source_;
  std::string origin_;
};

TEST_F(MemoryHintsImportTest, APageOfAFileIsImportedForWhoWantsAPage) {
  const Lease lease = LoadSecondPage({.alignment = kPage});
  EXPECT_EQ(lease.strategy(), "imported");
  EXPECT_TRUE(LiesAt(lease, kPage));
}

TEST_F(MemoryHintsImportTest, AndCopiedForWhoWantsMoreThanAPageOrAPool) {
  {
    const Lease more = LoadSecondPage({.alignment = 2 * kPage});
    EXPECT_EQ(more.strategy(), "host");
    EXPECT_TRUE(LiesAt(more, 2 * kPage));
    EXPECT_EQ(origin_, "misaligned");
    EXPECT_EQ(HostBytesAt(more.address(), kPage), CountingFloats(1024, 1025));
  }
  const Lease pooled = LoadSecondPage({.pool = 2});
  EXPECT_EQ(pooled.strategy(), "pool 2");
  EXPECT_EQ(origin_, "stored");
  EXPECT_EQ(HostBytesAt(pooled.address(), kPage), CountingFloats(1024, 1025));
}

TEST_F(MemoryHintsImportTest, AnImportThatComesElsewhereAfterAllIsDroppedAndTheTensorCopied) {
  memory_->imports_off_by = 64;  // a memory whose imports do not begin on pages
  const Lease lease = LoadSecondPage({.alignment = kPage});
  EXPECT_EQ(lease.strategy(), "host");
  EXPECT_TRUE(LiesAt(lease, kPage));
  EXPECT_EQ(memory_->Usage().imported_bytes, 0u);
  EXPECT_EQ(LoadSecondPage({}).address(), lease.address()) << "which lies well enough for others";
}

// Leases a file's second page for whatever is wanted.
class LendingUpstream final : public Upstream {
 public:
  explicit LendingUpstream(std::shared_ptr<Source> source) : source_(std::move(source)) {}
  std::string name() const override { return "the daemon"; }
  absl::StatusOr<std::vector<Leased>> Lease(absl::string_view, absl::Span<const Wanted> wanted,
                                            const LoadOptions&) override {
    asked += wanted.size();
    return std::vector<Leased>(wanted.size(), Leased{.source = source_, .offset = kPage});
  }
  size_t asked = 0;

 private:
  const std::shared_ptr<Source> source_;
};

TEST_F(MemoryHintsTest, AServiceIsAskedForPagesOnlyWherePagesWillDoAndElseItIsSaid) {
  std::vector<std::byte> pages(2 * kPage);
  std::copy_n(weights_.Expected(0).begin(), weights_.Expected(0).size(), pages.begin() + kPage);
  const testing::TemporaryFile file(pages);
  const auto upstream = std::make_shared<LendingUpstream>(Source::OpenFile(file.path()).value());
  Make({.upstream = upstream});
  memory_->imports = true;
  const auto load = [&](const MemoryHints& hints) {
    const Owner owner = AddOwner("prefill");
    EXPECT_TRUE(Register(owner, hints).ok());
    const Lease lease = Load(owner);
    EXPECT_TRUE(LiesAt(lease, std::max<uint64_t>(hints.alignment, 1)));
    ExpectContents(lease);
    return std::string(lease.strategy());
  };
  EXPECT_EQ(load({.alignment = kPage}), "imported");
  EXPECT_EQ(upstream->asked, 1u);
  EXPECT_EQ(load({.alignment = 2 * kPage}), "host");
  EXPECT_EQ(load({.pool = 1}), "pool 1");
  EXPECT_EQ(upstream->asked, 1u);
  EXPECT_THAT(upstream->notices(),
              Contains(HasSubstr("tensor 'wq' is wanted at a multiple of 8192, where no shared page "
                                 "lies: it is this process's own")));
}

// Where everything comes from fails once, or for ever, at each call.
TEST_F(MemoryHintsTest, WhicheverAllocationOrWriteFailsNothingIsLostAndTheNextLoadPutsItThere) {
  for (const bool forever : {false, true}) {
    for (const auto call : {PooledMemory::Call::kAllocate, PooledMemory::Call::kWrite}) {
      int failures = 0;
      for (uint64_t nth = 1;; ++nth) {
        SCOPED_TRACE(nth);
        const Owner owner = AddOwner("prefill");
        for (size_t i = 0; i < weights_.size(); ++i) {
          ASSERT_TRUE(Register(owner, {.alignment = kHuge, .pool = i % 3}, i).ok());
        }
        memory_->Fail({.call = call, .nth = nth, .forever = forever});
        const absl::Status status = bank_->EvaluateAndAllocate(owner);
        memory_->Fail({.call = call});
        EXPECT_EQ(memory_->Usage().live_allocations, nth - 1);
        if (status.ok()) break;
        ++failures;
        const std::vector<Lease> leases = bank_->Load(owner).value();
        for (size_t i = 0; i < leases.size(); ++i) {
          EXPECT_TRUE(LiesAt(leases[i], kHuge));
          EXPECT_EQ(leases[i].strategy(), i % 3 == 0 ? "host" : absl::StrCat("pool ", i % 3));
          ExpectContents(leases[i], i);
        }
      }
      EXPECT_EQ(failures, static_cast<int>(weights_.size()));
    }
  }
}

}  // namespace
}  // namespace npubank
