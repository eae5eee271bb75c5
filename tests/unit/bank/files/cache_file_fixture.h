// CacheFileTest: a cache file in a folder of its own, and processes that load through it.
#ifndef NPUBANK_TESTS_UNIT_BANK_FILES_CACHE_FILE_FIXTURE_H_
#define NPUBANK_TESTS_UNIT_BANK_FILES_CACHE_FILE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/files/cache_generated.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank {

inline std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Bytes of one value, for Add.
inline auto Fill(char value) {
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
      const Owner owner = bank->AddOwner("prefill", {.index = weights.Index()});
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
    EXPECT_THAT(load.report.problems, ::testing::ElementsAre(::testing::HasSubstr(why)));
    const Loaded again = Load(weights_);
    EXPECT_EQ(again.totals.transformations, 0u);
    EXPECT_THAT(again.report.problems, ::testing::IsEmpty());
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
        wire::CachedTensor(1, 2, payload_offset, payload_bytes, 3, 4, 5)};
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

  // What is being added: the only file of the folder that this process has open and that has no name.
  std::string DraftPath() const {
    std::string draft;
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // the iterator's own
      const std::string name = std::filesystem::read_symlink(file.path(), gone).string();
      if (!absl::StartsWith(name, folder_.path()) || !absl::EndsWith(name, " (deleted)")) continue;
      EXPECT_EQ(draft, "") << "two of them";
      draft = file.path();
    }
    return draft;
  }

  TestWeights weights_{3};
  TemporaryFolder folder_;
  std::string path_ = folder_.File("weights.cache");
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_BANK_FILES_CACHE_FILE_FIXTURE_H_
