// The cache file on its own, and behind a bank: what may be used, and everything that must not be.
#include "bank/cache_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bank/bank.h"
#include "bank/cache_generated.h"
#include "bank/evaluator.h"
#include "bank/host_memory.h"
#include "lazy_tensor/retention.h"
#include "tests/support/file_faults.h"
#include "tests/support/scripted_source.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_weights.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Bytes of one value, for Add.
auto Fill(char value) {
  return [value](uint64_t, absl::Span<std::byte> out) {
    std::fill(out.begin(), out.end(), std::byte(value));
    return absl::OkStatus();
  };
}

class CacheFileTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kTransformed = 6;  // all of three layers'

  struct Loaded {
    BankTotals totals;
    CacheReport report;
    std::vector<std::vector<std::byte>> bytes;
  };

  // What a process does: open the cache, load everything, save.
  Loaded Load(const TestWeights& weights, bool verify_at_open = false) {
    const auto cache = CacheFile::Open({.path = path_, .verify_at_open = verify_at_open});
    const auto memory = std::make_shared<HostMemory>();
    const auto bank = Bank::Create(memory, {.share_content = false, .cache = cache});
    Loaded loaded;
    {
      const Owner owner = bank->AddOwner("prefill", {.resolver = weights.Resolver()});
      const std::vector<Uid> uids = RegisterAll(*bank, owner, weights);
      const absl::Status status = bank->EvaluateAndAllocate(owner);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(bank->Audit().clean()) << bank->Audit().ToString();
      EXPECT_EQ(LiveSourceBytes(), 0u);
      for (size_t i = 0; i < uids.size(); ++i) {
        std::vector<std::byte> bytes(weights.Expected(i).size());
        EXPECT_TRUE(bank->Read(uids[i], 0, absl::MakeSpan(bytes)).ok());
        EXPECT_EQ(bytes, weights.Expected(i)) << i;
      }
      loaded.totals = bank->Totals();
    }
    EXPECT_EQ(memory->Usage().live_allocations, 0u);
    loaded.report = cache->Report();
    const absl::Status saved = cache->Save();
    EXPECT_TRUE(saved.ok()) << saved;
    return loaded;
  }

  static std::vector<Uid> RegisterAll(Bank& bank, const Owner& owner, const TestWeights& weights) {
    std::vector<Uid> uids;
    for (const LazyTensor& tensor : weights.Submodel()) {
      uids.push_back(bank.Register(owner, tensor, absl::StrCat("t", uids.size())).value().uid);
    }
    return uids;
  }

  // A file that must not be used: reported, everything evaluated again, and repaired by that.
  void ExpectUnused(const std::string& why) {
    const Loaded load = Load(weights_);
    EXPECT_EQ(load.totals.cache_hits, 0u);
    EXPECT_EQ(load.totals.transformations, kTransformed);
    EXPECT_THAT(load.report.problems, ElementsAre(HasSubstr(why)));
    const Loaded again = Load(weights_);
    EXPECT_EQ(again.totals.transformations, 0u);
    EXPECT_THAT(again.report.problems, IsEmpty());
  }

  // Replaces the index, under a seal that fits it.
  void Reseal(const std::string& index, uint64_t offset) {
    std::string file = ReadAll(path_).substr(0, offset);
    file += index;
    file.replace(0, FileSeal::kBytes, EncodeSeal(kCacheFile, offset, index));
    WriteAll(path_, file);
  }
  void ResealWith(uint64_t payload_offset, uint64_t payload_bytes) {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<wire::CachedTensor> tensors = {
        wire::CachedTensor(1, 2, payload_offset, payload_bytes, 3, 4)};
    wire::FinishCacheIndexBuffer(
        builder, wire::CreateCacheIndex(builder, builder.CreateVectorOfStructs(tensors)));
    Reseal(
        std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()),
        SealedOffset());
  }
  uint64_t SealedOffset() const {
    const std::string file = ReadAll(path_);
    return ReadSeal(kCacheFile, file, file.size()).value().offset;
  }
  size_t FilesInFolder() const {
    size_t files = 0;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      ++files;
    }
    return files;
  }

  // The folder's only file that is not the cache: what is being added.
  std::string DraftPath() const {
    std::string draft;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      if (file.path() == path_) continue;
      EXPECT_EQ(draft, "") << "two of them";
      draft = file.path();
    }
    return draft;
  }

  TestWeights weights_{3};
  TemporaryFolder folder_;
  std::string path_ = folder_.File("weights.cache");
};

TEST_F(CacheFileTest, AWarmStartTransformsNothing) {
  const Loaded cold = Load(weights_);
  EXPECT_EQ(cold.totals.transformations, kTransformed);
  EXPECT_EQ(cold.report.unsaved, kTransformed);
  const Loaded warm = Load(weights_);
  EXPECT_EQ(warm.totals.transformations, 0u);
  EXPECT_EQ(warm.totals.cache_hits, kTransformed);
  EXPECT_EQ(warm.totals.evaluations, weights_.size());
  EXPECT_THAT(warm.report.problems, IsEmpty());
  EXPECT_EQ(FilesInFolder(), 1u);
}

TEST_F(CacheFileTest, AFullHitWritesNothing) {
  Load(weights_);
  const auto before = std::filesystem::last_write_time(path_);
  Load(weights_);
  EXPECT_EQ(std::filesystem::last_write_time(path_), before);
}

TEST_F(CacheFileTest, MissesAreAppendedToWhatIsThere) {
  const TestWeights other(3, /*variant=*/1);
  Load(weights_);
  EXPECT_EQ(Load(other).totals.transformations, kTransformed);
  EXPECT_EQ(Load(weights_).totals.transformations, 0u);
  EXPECT_EQ(Load(other).totals.transformations, 0u);
}

TEST_F(CacheFileTest, PayloadsLieOnPagesSoThatTheyCanBeImported) {
  Load(weights_);
  const auto cache = CacheFile::Open({.path = path_});
  size_t found = 0;
  for (const LazyTensor& tensor : weights_.Submodel()) {
    const auto cached = cache->Find(tensor.digest(), tensor.type().bytes());
    if (!cached.has_value()) continue;
    ++found;
    EXPECT_EQ(cached->offset % CacheFile::kAlignment, 0u);
    EXPECT_TRUE(CheckPayload(*cached).ok());
  }
  EXPECT_EQ(found, kTransformed);
}

TEST_F(CacheFileTest, WakingTakesTheCacheAndNotTheSource) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.cache = cache});
  const Owner owner = bank->AddOwner("prefill", {.resolver = weights_.Resolver()});
  const std::vector<Uid> uids = RegisterAll(*bank, owner, weights_);
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  ASSERT_TRUE(cache->Save().ok());
  ASSERT_TRUE(bank->Sleep(owner).ok());
  EXPECT_EQ(bank->Totals().device_bytes, 0u);
  ASSERT_TRUE(bank->Wake(owner).ok());
  EXPECT_EQ(bank->Totals().transformations, kTransformed) << "those of the load";
  EXPECT_EQ(bank->Totals().cache_hits, kTransformed);
  std::vector<std::byte> bytes(weights_.Expected(0).size());
  ASSERT_TRUE(bank->Read(uids[0], 0, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes, weights_.Expected(0));
}

TEST_F(CacheFileTest, WhatIsAddedIsFoundAtOnceAndStaysReadable) {
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_TRUE(cache->Add(Digest{1, 1}, 5000, Fill(1)).ok());
  ASSERT_TRUE(cache->Add(Digest{2, 2}, 3000000, Fill(2)).ok());
  const std::optional<CachedBytes> added = cache->Find(Digest{2, 2}, 3000000);
  ASSERT_TRUE(added.has_value());
  EXPECT_TRUE(CheckPayload(*added).ok()) << CheckPayload(*added);
  EXPECT_FALSE(cache->Find(Digest{2, 2}, 3000001).has_value());
  EXPECT_TRUE(absl::IsFailedPrecondition(added->file->View(0, 4096).status()))
      << "a file that is still written is read, not mapped or imported";
  ASSERT_TRUE(cache->Save().ok());
  EXPECT_TRUE(CheckPayload(*added).ok()) << "as the file that it has become";
  const CachedBytes saved = cache->Find(Digest{2, 2}, 3000000).value();
  EXPECT_TRUE(CheckPayload(saved).ok());
  EXPECT_TRUE(saved.file->View(0, 4096).ok());
}

TEST_F(CacheFileTest, WhatComesBackInTheSameRunIsNeitherTransformedNorAddedAgain) {
  Load(weights_);
  const auto size_of_one_load = std::filesystem::file_size(path_);
  ASSERT_TRUE(std::filesystem::remove(path_));
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank =
      Bank::Create(std::make_shared<HostMemory>(), {.share_content = false, .cache = cache});
  const Owner owner = bank->AddOwner("prefill", {.resolver = weights_.Resolver()});
  const std::vector<Uid> uids = RegisterAll(*bank, owner, weights_);
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(bank->Sleep(owner).ok());
    ASSERT_EQ(bank->Totals().device_bytes, 0u);
    ASSERT_TRUE(bank->Wake(owner).ok());
  }
  EXPECT_EQ(bank->Totals().transformations, kTransformed);
  EXPECT_EQ(bank->Totals().cache_hits, 5 * kTransformed);
  for (size_t i = 0; i < uids.size(); ++i) {
    std::vector<std::byte> bytes(weights_.Expected(i).size());
    ASSERT_TRUE(bank->Read(uids[i], 0, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, weights_.Expected(i)) << i;
  }
  ASSERT_TRUE(cache->Save().ok());
  EXPECT_EQ(std::filesystem::file_size(path_), size_of_one_load);
}

TEST_F(CacheFileTest, TwoModelsInTurnOnASmallBudgetAreTransformedOnce) {
  const TestWeights other(3);
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(
      std::make_shared<HostMemory>(),
      {.budget_bytes = weights_.size() * 4096, .share_content = false, .cache = cache});
  const Owner first = bank->AddOwner("first", {.resolver = weights_.Resolver()});
  const Owner second = bank->AddOwner("second", {.resolver = other.Resolver()});
  RegisterAll(*bank, first, weights_);
  RegisterAll(*bank, second, other);
  uintmax_t draft_size = 0;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(bank->EvaluateAndAllocate(first).ok());
    ASSERT_TRUE(bank->EvaluateAndAllocate(second).ok());
    if (round == 0) draft_size = std::filesystem::file_size(DraftPath());
  }
  EXPECT_GE(bank->Totals().evictions, 5 * weights_.size()) << "each pushes the other out";
  EXPECT_EQ(bank->Totals().transformations, 2 * kTransformed);
  EXPECT_EQ(std::filesystem::file_size(DraftPath()), draft_size);
}

TEST_F(CacheFileTest, WhatIsThereOrBeingAddedIsNotWrittenASecondTime) {
  const auto cache = CacheFile::Open({.path = path_});
  int reads = 0;
  const auto count = [&](uint64_t, absl::Span<std::byte>) {
    ++reads;
    return absl::OkStatus();
  };
  const auto status =
      cache->Add(Digest{1, 1}, 100, [&](uint64_t offset, absl::Span<std::byte> out) {
        EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, count).ok()) << "while the first is at it";
        return Fill(7)(offset, out);
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, count).ok());
  ASSERT_TRUE(cache->Save().ok());
  EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, count).ok());
  EXPECT_EQ(reads, 0);
  EXPECT_EQ(cache->Report().unsaved, 0u);
  EXPECT_TRUE(CheckPayload(cache->Find(Digest{1, 1}, 100).value()).ok());
}

TEST_F(CacheFileTest, WhatCouldNotBeAddedMayBeTriedAgain) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto lost = [](uint64_t, absl::Span<std::byte>) { return absl::UnavailableError("lost"); };
  EXPECT_TRUE(absl::IsUnavailable(cache->Add(Digest{1, 1}, 100, lost)));
  EXPECT_FALSE(cache->Find(Digest{1, 1}, 100).has_value());
  EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  EXPECT_TRUE(cache->Find(Digest{1, 1}, 100).has_value());
}

TEST_F(CacheFileTest, WhatIsDamagedBeforeTheSaveIsTransformedAndAddedAgain) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank =
      Bank::Create(std::make_shared<HostMemory>(), {.share_content = false, .cache = cache});
  const Owner owner = bank->AddOwner("prefill", {.resolver = weights_.Resolver()});
  RegisterAll(*bank, owner, weights_);
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  std::fstream draft(DraftPath(), std::ios::binary | std::ios::in | std::ios::out);
  draft.seekp(CacheFile::kAlignment + 5);
  draft.put('x');
  draft.close();
  ASSERT_TRUE(bank->Sleep(owner).ok());
  ASSERT_TRUE(bank->Wake(owner).ok());
  EXPECT_EQ(bank->Totals().transformations, kTransformed + 1);
  EXPECT_THAT(cache->Report().problems, ElementsAre(HasSubstr("not what was written")));
  ASSERT_TRUE(cache->Save().ok());
  const CacheReport saved = CacheFile::Open({.path = path_, .verify_at_open = true})->Report();
  EXPECT_EQ(saved.entries, kTransformed);
  EXPECT_THAT(saved.problems, IsEmpty());
}

TEST_F(CacheFileTest, ASaveThatFailsForgetsWhatWasAddedAndGivesItsRoomBack) {
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  ASSERT_TRUE(std::filesystem::create_directory(path_));  // nothing is renamed over a folder
  EXPECT_FALSE(cache->Save().ok());
  EXPECT_FALSE(cache->Find(Digest{1, 1}, 100).has_value());
  ASSERT_TRUE(std::filesystem::remove(path_));
  EXPECT_EQ(FilesInFolder(), 0u);
  EXPECT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  EXPECT_TRUE(cache->Save().ok());
  EXPECT_EQ(CacheFile::Open({.path = path_})->Report().entries, 1u);
}

TEST_F(CacheFileTest, AMissingFileIsAnEmptyCacheAndNoProblem) {
  EXPECT_THAT(CacheFile::Open({.path = path_})->Report().problems, IsEmpty());
}

TEST_F(CacheFileTest, AFlippedPayloadByteIsSeenOnFirstUse) {
  Load(weights_);
  std::string file = ReadAll(path_);
  file[CacheFile::kAlignment + 5] ^= 1;
  WriteAll(path_, file);
  const Loaded load = Load(weights_);
  EXPECT_EQ(load.totals.cache_hits, kTransformed - 1);
  EXPECT_EQ(load.totals.transformations, 1u);
  EXPECT_THAT(load.report.problems, ElementsAre(HasSubstr("not what was written")));
  EXPECT_EQ(Load(weights_).totals.transformations, 0u) << "the save repaired it";
}

TEST_F(CacheFileTest, AFlippedPayloadByteIsSeenAtOpenWhenAsked) {
  Load(weights_);
  std::string file = ReadAll(path_);
  file[CacheFile::kAlignment + 5] ^= 1;
  WriteAll(path_, file);
  const auto cache = CacheFile::Open({.path = path_, .verify_at_open = true});
  EXPECT_EQ(cache->Report().entries, kTransformed - 1);
  EXPECT_THAT(cache->Report().problems, ElementsAre(HasSubstr("not what was written")));
  EXPECT_EQ(Load(weights_, /*verify_at_open=*/true).totals.transformations, 1u);
}

TEST_F(CacheFileTest, APayloadThatTheSystemFailsToReadIsEvaluatedAgain) {
  Load(weights_);
  const auto cache = CacheFile::Open({.path = path_});
  const auto memory = std::make_shared<HostMemory>();
  const LazyTensor tensor = weights_.Submodel()[0];
  const CachedBytes cached = cache->Find(tensor.digest(), tensor.type().bytes()).value();
  {
    const FileFault fault(FileFault::kRead, 1, EIO);
    const absl::Status status = CheckPayload(cached);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
  const FileFault fault(FileFault::kRead, 1, EIO);
  const absl::Status status = Evaluator(memory, nullptr).Fetch(cached, "wq").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << "which the bank takes for a miss: " << status;
  EXPECT_EQ(memory->Usage().live_allocations, 0u);
}

TEST_F(CacheFileTest, ADeviceThatIsLostIsNotTheCachesFault) {
  class LostOnce : public HostMemory {
   public:
    absl::Status Write(DeviceAllocation& memory, ProduceBytes produce) override {
      if (!std::exchange(lost_, true)) return absl::UnavailableError("the device was lost");
      return HostMemory::Write(memory, produce);
    }

   private:
    bool lost_ = false;
  };
  Load(weights_);
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank =
      Bank::Create(std::make_shared<LostOnce>(), {.share_content = false, .cache = cache});
  const Owner owner = bank->AddOwner("prefill");
  RegisterAll(*bank, owner, weights_);
  const absl::Status status = bank->EvaluateAndAllocate(owner);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(cache->Report().problems, IsEmpty());
  EXPECT_EQ(cache->Report().entries, kTransformed);
  EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank->Totals().cache_hits, kTransformed);
  EXPECT_EQ(bank->Totals().transformations, 0u);
}

TEST_F(CacheFileTest, ASaveWhoseWritingFailsAnywhereFailsAndLeavesTheOldFile) {
  Load(weights_);
  const std::string before = ReadAll(path_);
  bool failed = true;
  for (uint64_t nth = 1; failed; ++nth) {
    SCOPED_TRACE(nth);
    ASSERT_LT(nth, 100u);
    const auto cache = CacheFile::Open({.path = path_});
    ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
    const FileFault fault(FileFault::kWrite, nth, EIO);
    const absl::Status status = cache->Save();
    failed = fault.happened();
    EXPECT_EQ(status.ok(), !failed) << status;
    if (failed) {
      EXPECT_TRUE(ReadAll(path_) == before) << "the old file is as it was";
    }
    EXPECT_EQ(FilesInFolder(), 1u);
  }
  const CacheReport report = CacheFile::Open({.path = path_, .verify_at_open = true})->Report();
  EXPECT_EQ(report.entries, kTransformed + 1);
}

TEST_F(CacheFileTest, ASaveTakesAlongWhatItCanReadOfTheOldFile) {
  Load(weights_);
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_TRUE(cache->Add(Digest{1, 1}, 100, Fill(1)).ok());
  const FileFault fault(FileFault::kRead, 5, EIO);  // seal, index, two payloads, and this one
  EXPECT_TRUE(cache->Save().ok());
  EXPECT_TRUE(fault.happened());
  EXPECT_EQ(cache->Report().entries, kTransformed - 1 + 1);
  EXPECT_THAT(CacheFile::Open({.path = path_, .verify_at_open = true})->Report().problems,
              IsEmpty());
}

TEST_F(CacheFileTest, AnIndexWhoseNumbersLieOnFourBytesIsReadAsAnyOther) {
  Load(weights_);
  ResealWith(4096, 8);
  const std::string file = ReadAll(path_);
  std::string index = file.substr(SealedOffset());
  // The root's offset and the identifier, then everything else four bytes later.
  ASSERT_LT(index[0], 124);
  index[0] += 4;
  index.insert(8, 4, '\0');
  Reseal(index, SealedOffset());
  const auto cache = CacheFile::Open({.path = path_});
  ASSERT_THAT(cache->Report().problems, IsEmpty());
  const std::optional<CachedBytes> found = cache->Find(Digest{1, 2}, 8);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->offset, 4096u);
  EXPECT_EQ(found->hash, (Digest{3, 4}));
}

TEST_F(CacheFileTest, AStaleSourceNeverHits) {
  TestWeights changing(3);
  Load(changing);
  changing.Rewrite();
  const auto cache = CacheFile::Open({.path = path_});
  for (const LazyTensor& tensor : changing.Submodel()) {
    EXPECT_FALSE(cache->Find(tensor.digest(), tensor.type().bytes()).has_value());
  }
}

TEST_F(CacheFileTest, TruncatedAnywhereItIsNotUsed) {
  Load(weights_);
  const std::string file = ReadAll(path_);
  for (const size_t size :
       {size_t{0}, size_t{7}, size_t{39}, size_t{40}, file.size() / 2, file.size() - 1}) {
    SCOPED_TRACE(size);
    WriteAll(path_, file.substr(0, size));
    ExpectUnused("is not used");
  }
  WriteAll(path_, file + "x");
  ExpectUnused("does not end with the file");
}

TEST_F(CacheFileTest, AnyChangedBitOfSealOrIndexIsSeen) {
  Load(weights_);
  const std::string good = ReadAll(path_);
  std::vector<size_t> places;
  for (size_t at = 0; at < FileSeal::kBytes; ++at) places.push_back(at);
  for (size_t at = SealedOffset(); at < good.size(); ++at) places.push_back(at);
  for (const size_t at : places) {
    std::string bad = good;
    bad[at] ^= 0x10;
    WriteAll(path_, bad);
    const CacheReport report = CacheFile::Open({.path = path_})->Report();
    EXPECT_EQ(report.entries, 0u) << at;
    EXPECT_EQ(report.problems.size(), 1u) << at;
  }
}

TEST_F(CacheFileTest, AnotherVersionIsNotUsed) {
  Load(weights_);
  FileKind later = kCacheFile;
  later.version = 2;
  const uint64_t offset = SealedOffset();
  std::string file = ReadAll(path_);
  file.replace(0, FileSeal::kBytes, EncodeSeal(later, offset, file.substr(offset)));
  WriteAll(path_, file);
  ExpectUnused("version 2");
}

TEST_F(CacheFileTest, AnIndexOffsetBeyondTheFileIsNotUsed) {
  Load(weights_);
  std::string file = ReadAll(path_);
  const std::string index = file.substr(SealedOffset());
  for (const uint64_t offset : {file.size() + 1, ~uint64_t{0} - index.size() + 1, uint64_t{8}}) {
    std::string bad = file;
    bad.replace(0, FileSeal::kBytes, EncodeSeal(kCacheFile, offset, index));
    WriteAll(path_, bad);
    EXPECT_THAT(CacheFile::Open({.path = path_})->Report().problems,
                ElementsAre(HasSubstr("does not lie within")));
  }
}

TEST_F(CacheFileTest, APayloadOutsideOfTheFileIsNotUsed) {
  Load(weights_);
  const std::vector<std::pair<uint64_t, uint64_t>> bad = {
      {uint64_t{1} << 40, 8},       // beyond the end
      {4096, uint64_t{1} << 40},    // its end is
      {4096, ~uint64_t{0} - 4095},  // its end wraps
      {~uint64_t{4095}, 8192},      // both
      {0, 8},                       // over the seal
      {4097, 8},                    // on no page
      {4096, 0},                    // nothing
  };
  for (const auto& [offset, bytes] : bad) {
    SCOPED_TRACE(absl::StrCat(offset, " + ", bytes));
    ResealWith(offset, bytes);
    EXPECT_THAT(CacheFile::Open({.path = path_})->Report().problems,
                ElementsAre(HasSubstr("does not lie between")));
  }
  ResealWith(4096, 8);
  EXPECT_EQ(CacheFile::Open({.path = path_})->Report().entries, 1u) << "the control";
}

TEST_F(CacheFileTest, ATensorOfAnotherSizeUnderTheSameDigestIsNotUsed) {
  Load(weights_);
  ResealWith(4096, 8);
  const auto cache = CacheFile::Open({.path = path_});
  EXPECT_TRUE(cache->Find(Digest{1, 2}, 8).has_value());
  EXPECT_FALSE(cache->Find(Digest{1, 2}, 16).has_value());
}

TEST_F(CacheFileTest, AnIndexThatIsNoIndexIsNotUsed) {
  Load(weights_);
  Reseal("no flatbuffer at all", SealedOffset());
  ExpectUnused("refers beyond its end");
}

TEST_F(CacheFileTest, AProcessThatStopsBeforeTheSaveLeavesTheOldFile) {
  Load(weights_);
  const std::string before = ReadAll(path_);
  {
    const auto cache = CacheFile::Open({.path = path_});
    ASSERT_TRUE(cache->Add(Digest{5, 5}, 4, Fill(1)).ok());
    EXPECT_EQ(FilesInFolder(), 2u) << "the temporary file";
  }
  EXPECT_EQ(FilesInFolder(), 1u);
  EXPECT_EQ(ReadAll(path_), before);
  // One that was killed leaves its temporary file, half written: nobody looks at it.
  WriteAll(path_ + ".Ab12Cd", before.substr(0, before.size() / 2));
  EXPECT_EQ(Load(weights_).totals.transformations, 0u);
}

TEST_F(CacheFileTest, TwoThatAreOpenAtOnceKeepWhatEachHasAndLoseNothing) {
  const auto first = CacheFile::Open({.path = path_});
  const auto second = CacheFile::Open({.path = path_});
  ASSERT_TRUE(first->Add(Digest{1, 1}, 5000, Fill(1)).ok());
  ASSERT_TRUE(second->Add(Digest{2, 2}, 5000, Fill(2)).ok());
  ASSERT_TRUE(first->Save().ok());
  const CachedBytes held = first->Find(Digest{1, 1}, 5000).value();
  ASSERT_TRUE(second->Save().ok());
  EXPECT_TRUE(CheckPayload(held).ok()) << "the file that was renamed over is still there for it";
  const auto third = CacheFile::Open({.path = path_});
  EXPECT_EQ(third->Report().entries, 2u);
  EXPECT_TRUE(CheckPayload(third->Find(Digest{1, 1}, 5000).value()).ok());
  EXPECT_TRUE(CheckPayload(third->Find(Digest{2, 2}, 5000).value()).ok());
}

TEST_F(CacheFileTest, ManyThreadsAddAndSaveAndFindWhatTheyAdded) {
  const auto cache = CacheFile::Open({.path = path_});
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = 0; i < 20; ++i) {
        ASSERT_TRUE(cache->Add(Digest{thread, i}, 3000 + i, Fill(i)).ok());
        if (i % 8 == thread) {
          EXPECT_TRUE(cache->Save().ok());
        }
        for (uint64_t earlier = 0; earlier <= i; ++earlier) {
          const auto found = cache->Find(Digest{thread, earlier}, 3000 + earlier);
          ASSERT_TRUE(found.has_value()) << "before, during and after a save";
          ASSERT_TRUE(CheckPayload(*found).ok()) << CheckPayload(*found);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(cache->Save().ok());
  const CacheReport report = CacheFile::Open({.path = path_, .verify_at_open = true})->Report();
  EXPECT_EQ(report.entries, 80u);
  EXPECT_THAT(report.problems, IsEmpty());
}

TEST_F(CacheFileTest, AFolderThatCannotBeWrittenFailsTheSaveAndNotTheLoad) {
  path_ = folder_.File("missing/weights.cache");
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.cache = cache});
  const Owner owner = bank->AddOwner("prefill");
  RegisterAll(*bank, owner, weights_);
  EXPECT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(cache->Report().problems.size(), kTransformed);
}

TEST_F(CacheFileTest, WhatIsStoredAsItIsNeedsNoSecondCopy) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.cache = cache});
  const Owner owner = bank->AddOwner("prefill");
  const TensorType type = TensorType::Create(ElementType::kU8, Shape::Create({64}).value()).value();
  const auto file = Source::OpenFile(weights_.path()).value();
  ASSERT_TRUE(bank->Register(owner, LazyTensor::Constant(file, 0, type, "w").value(), "w").ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank->Totals().evaluations, 1u);
  EXPECT_EQ(bank->Totals().transformations, 0u);
  EXPECT_EQ(cache->Report().unsaved, 0u);
}

TEST_F(CacheFileTest, BuffersInMemoryAreNotKept) {
  const auto cache = CacheFile::Open({.path = path_});
  const auto bank = Bank::Create(std::make_shared<HostMemory>(), {.cache = cache});
  const Owner owner = bank->AddOwner("prefill");
  const TensorType type = TensorType::Create(ElementType::kF32, Shape::Create({6}).value()).value();
  const LazyTensor half =
      LazyTensor::Constant(Source::FromBuffer(CountingFloats(6), "buffer"), 0, type, "w")
          .value()
          .Convert(ElementType::kF16)
          .value();
  ASSERT_TRUE(bank->Register(owner, half, "w").ok());
  ASSERT_TRUE(bank->EvaluateAndAllocate(owner).ok());
  EXPECT_EQ(bank->Totals().transformations, 1u);
  EXPECT_EQ(cache->Report().unsaved, 0u);
}

}  // namespace
}  // namespace npubank
