// A cache file that is not what was written: seen, reported, and never used.
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "npubank/tests/unit/bank/files/cache_file_fixture.h"

namespace npubank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CacheDamageTest : public CacheFileTest {};

TEST_F(CacheDamageTest, AFlippedPayloadByteIsSeenOnFirstUse) {
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

TEST_F(CacheDamageTest, AFlippedPayloadByteIsSeenAtOpenWhenAsked) {
  Load(weights_);
  std::string file = ReadAll(path_);
  file[CacheFile::kAlignment + 5] ^= 1;
  WriteAll(path_, file);
  const auto cache = CacheFile::Open({.path = path_, .verify_at_open = true});
  EXPECT_EQ(cache->Report().entries, kTransformed - 1);
  EXPECT_THAT(cache->Report().problems, ElementsAre(HasSubstr("not what was written")));
  EXPECT_EQ(Load(weights_, /*verify_at_open=*/true).totals.transformations, 1u);
}

TEST_F(CacheDamageTest, AnIndexWhoseNumbersLieOnFourBytesIsReadAsAnyOther) {
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

TEST_F(CacheDamageTest, AStaleSourceNeverHits) {
  TestWeights changing(3);
  Load(changing);
  changing.Rewrite();
  const auto cache = CacheFile::Open({.path = path_});
  for (const LazyTensor& tensor : changing.Submodel()) {
    EXPECT_FALSE(
        cache->Find(CacheKey(tensor.digest(), tensor.stamp()), tensor.type().bytes()).has_value());
  }
}

TEST_F(CacheDamageTest, TruncatedAnywhereItIsNotUsed) {
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

TEST_F(CacheDamageTest, AnyChangedBitOfSealOrIndexIsSeen) {
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

TEST_F(CacheDamageTest, AnotherVersionIsNotUsed) {
  Load(weights_);
  const uint64_t offset = SealedOffset();
  const std::string file = ReadAll(path_);
  for (const uint64_t version :
       {kCacheFile.version - 2, kCacheFile.version - 1, kCacheFile.version + 1}) {
    FileKind other = kCacheFile;
    other.version = version;
    std::string sealed = file;
    sealed.replace(0, FileSeal::kBytes, EncodeSeal(other, offset, file.substr(offset)));
    WriteAll(path_, sealed);
    ExpectUnused("version " + std::to_string(version));
  }
}

TEST_F(CacheDamageTest, AnIndexOffsetBeyondTheFileIsNotUsed) {
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

TEST_F(CacheDamageTest, APayloadOutsideOfTheFileIsNotUsed) {
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

TEST_F(CacheDamageTest, ATensorOfAnotherSizeUnderTheSameDigestIsNotUsed) {
  Load(weights_);
  ResealWith(4096, 8);
  const auto cache = CacheFile::Open({.path = path_});
  EXPECT_TRUE(cache->Find(Digest{1, 2}, 8).has_value());
  EXPECT_FALSE(cache->Find(Digest{1, 2}, 16).has_value());
}

TEST_F(CacheDamageTest, AnIndexThatIsNoIndexIsNotUsed) {
  Load(weights_);
  Reseal("no flatbuffer at all", SealedOffset());
  ExpectUnused("its identifier is not 'NPBC'");
}

}  // namespace
}  // namespace npubank
