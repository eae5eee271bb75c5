#include "npubank/bank/testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(LeakGuard, IsSilentWhenAScopeLeavesNothing) {
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const TestWeights weights(2);
  const LeakGuard guard({bank});
  const Owner owner = bank->AddOwner("prefill");
  for (const LazyTensor& tensor : weights.Submodel()) {
    ASSERT_TRUE(bank->Register(owner, tensor, "w").ok());
  }
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
}

TEST(LeakGuard, NamesTheSourceThatIsStillHeld) {
  std::vector<LazyTensor> kept;
  EXPECT_NONFATAL_FAILURE(
      {
        const TestWeights weights(1);
        const LeakGuard guard({});
        kept = weights.Submodel();
      },
      "weights.bin");
}

TEST(LeakGuard, NamesTheOwnerAndTheLeaseThatAreLeft) {
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const TestWeights weights(1);
  Owner owner;
  Lease lease;
  const auto leave_a_lease = [&] {
    owner = bank->AddOwner("forgotten");
    lease = bank->Get(bank->Register(owner, weights.Submodel()[0], "wq")->uid).value();
  };
  EXPECT_NONFATAL_FAILURE(
      {
        const LeakGuard guard({bank});
        leave_a_lease();
      },
      "'wq': resident, 4096 device bytes, 1 leases, owners: forgotten");
}

TEST(LeakGuard, NamesTheTensorThatIsKeptThoughItIsNowhere) {
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const TestWeights weights(1);
  Owner owner;
  const auto sleep = [&] {
    owner = bank->AddOwner("sleeper", {.index = weights.Index()});
    ASSERT_TRUE(bank->Register(owner, weights.Submodel()[0], "wq").ok());
    ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
    ASSERT_TRUE(bank->Sleep(owner).ok());
  };
  EXPECT_NONFATAL_FAILURE(
      {
        const LeakGuard guard({bank});
        sleep();
      },
      "'wq': evicted, 0 device bytes, 0 leases, owners: sleeper");
}

TEST(LeakGuard, SeesDeviceMemoryThatIsNotTheBanks) {
  const auto memory = std::make_shared<HostMemory>();
  const auto bank = Bank::Create(memory, {});
  const auto known = memory->Allocate(5000, "an arena that was there before").value();
  std::unique_ptr<DeviceAllocation> arena;
  EXPECT_NONFATAL_FAILURE(
      {
        const LeakGuard guard({bank});
        arena = memory->Allocate(100, "arena").value();
      },
      "the audit says: the device memory counts 12288 bytes; tensors have 0 and others 8192");
}

TEST(LeakGuard, IsSilentAboutWhatWasThereBefore) {
  const auto memory = std::make_shared<HostMemory>();
  const auto bank = Bank::Create(memory, {});
  const TestWeights weights(1);
  const std::vector<LazyTensor> held = weights.Submodel();
  const auto arena = memory->Allocate(5000, "arena").value();
  const Owner owner = bank->AddOwner("prefill");
  ASSERT_TRUE(bank->Register(owner, held[0], "wq").ok());
  const LeakGuard guard({bank});
  const Owner other = bank->AddOwner("kvcache");
  ASSERT_TRUE(bank->Register(other, weights.Submodel()[0], "wq").ok());
}

// Each of these leaves one thing, which must be named.
class LeakGuardNames : public ::testing::Test {
 protected:
  // What a guard says of what `leave` leaves.
  template <typename Leave>
  std::string Left(Leave leave) {
    const LeakGuard guard({bank_});
    leave();
    const std::string left = guard.Describe();
    undo_();
    EXPECT_EQ(guard.Describe(), "") << "and only that";
    return left;
  }
  void Load(Owner& owner, const LazyTensor& tensor, const std::string& name) {
    ASSERT_TRUE(bank_->Register(owner, tensor, name).ok());
    ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
  }

  const std::shared_ptr<Bank> bank_ = Bank::Create(std::make_shared<HostMemory>(), {});
  const TestWeights weights_{2};
  std::function<void()> undo_ = [] {};
};

TEST_F(LeakGuardNames, ATensorInTheRoomOfAnotherOfItsSize) {
  Owner owner = bank_->AddOwner("model");
  Load(owner, weights_.Submodel()[0], "first");
  const std::string left = Left([&] {
    owner.Release();
    owner = bank_->AddOwner("model");
    Load(owner, weights_.Submodel()[2], "second");
    undo_ = [&] {
      owner.Release();
      owner = bank_->AddOwner("model");
      Load(owner, weights_.Submodel()[0], "first");
    };
  });
  EXPECT_THAT(left, HasSubstr("'second': resident"));
  EXPECT_THAT(left, ContainsRegex("gone: tensor .* 'first': resident"));
}

TEST_F(LeakGuardNames, ASourceWithItsMapping) {
  std::shared_ptr<Source> source;
  const std::string left = Left([&] {
    source = *Source::OpenFile(weights_.path());
    ASSERT_TRUE(source->View(0, 1).ok());
    undo_ = [&] { source.reset(); };
  });
  EXPECT_THAT(left, ContainsRegex("left: source .*weights.bin': 1"));
  EXPECT_THAT(left, ContainsRegex("left: mapping of .*weights.bin: .* bytes"));
  EXPECT_THAT(left, ContainsRegex("left: open descriptors of .*weights.bin: 1"));
}

// What a checkpoint is made of.
TEST_F(LeakGuardNames, AnIndexAndWhatItKeepsOpen) {
  std::shared_ptr<const SourceIndex> index;
  std::shared_ptr<SourceIndex::Use> use;
  const std::string left = Left([&] {
    index = weights_.Index();
    use = std::make_shared<SourceIndex::Use>(index);
    ASSERT_TRUE(index->Open(0).ok());
    undo_ = [&] {
      use.reset();
      index.reset();
    };
  });
  EXPECT_THAT(left, ContainsRegex("left: open descriptors of .*weights.bin: 1"));
  EXPECT_THAT(left, ContainsRegex("left: index .*weights.bin': 1"));
}

TEST_F(LeakGuardNames, WhatACaptureKeeps) {
  std::function<std::shared_ptr<Source>()> resolver;
  const std::string left = Left([&] {
    resolver = [buffer = Source::FromBuffer(std::vector<std::byte>(100), "kept")] { return buffer; };
    undo_ = [&] { resolver = nullptr; };
  });
  EXPECT_THAT(left, ContainsRegex("left: source .* 'kept': 1"));
}

TEST_F(LeakGuardNames, TheHostCopiesOfASleep) {
  Owner owner = bank_->AddOwner("sleeper", {.index = weights_.Index()});
  Load(owner, weights_.Submodel()[0], "wq");
  ASSERT_TRUE(bank_->Sleep(owner).ok());
  const std::string left = Left([&] {
    ASSERT_TRUE(bank_->EvaluateAndAllocate(owner).ok());
    ASSERT_TRUE(bank_->Sleep(owner, {.keep_host_copy = true}).ok());
    undo_ = [&] { ASSERT_TRUE(bank_->DropHostCopies({&owner}).ok()); };
  });
  EXPECT_THAT(left, HasSubstr("left: host copy of tensor 'wq': 1"));
}

TEST_F(LeakGuardNames, TheDraftOfACacheThatIsNotSaved) {
  const TemporaryFolder folder;
  const std::shared_ptr<CacheFile> cache = CacheFile::Open({.path = folder.File("weights.cache")});
  const std::string left = Left([&] {
    const auto fill = [](uint64_t, absl::Span<std::byte>) { return absl::OkStatus(); };
    ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, fill).ok());
    undo_ = [&] {
      cache->Distrust(Digest{1, 1}, absl::DataLossError("for the test"));
      ASSERT_TRUE(cache->Save().ok());
    };
  });
  EXPECT_THAT(left, ContainsRegex("left: unsaved draft of cache '.*weights.cache': 1"));
}

TEST_F(LeakGuardNames, MemoryOfNoFile) {
  int file = -1;
  void* mapping = nullptr;
  const std::string left = Left([&] {
    file = memfd_create("forgotten", 0);
    ASSERT_EQ(ftruncate(file, 4096), 0);
    mapping = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    undo_ = [&] {
      munmap(mapping, 4096);
      close(file);
    };
  });
  EXPECT_THAT(left, ContainsRegex("left: mapping of /memfd:forgotten.*: 4096 bytes"));
  EXPECT_THAT(left, ContainsRegex("left: open descriptors of /memfd:forgotten.*: 1"));
}

TEST_F(LeakGuardNames, WhatARoomAboveCounts) {
  std::optional<LiveObject> object;
  const std::string left = Left([&] {
    object.emplace("Level Zero fence");
    undo_ = [&] { object.reset(); };
  });
  EXPECT_EQ(left, "left: Level Zero fence: 1\n");
}

}  // namespace
}  // namespace npubank
