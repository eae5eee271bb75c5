// GPTQ and AWQ words: by hand, and against the plain loops on every instruction set.
#include "npubank/lazy_tensor/kernels/packing.h"

#include "gmock/gmock.h"
#include "npubank/lazy_tensor/kernels/permute.h"
#include "npubank/tests/unit/kernels/every_target.h"

namespace npubank::kernels {
namespace {

using ::testing::ElementsAre;

TEST(Packing, GptqWordsHoldEightRowsOfAColumn) {
  const uint32_t words[] = {0x76543210, 0xFEDCBA98};  // columns 0 and 1
  std::vector<uint8_t> out(8);
  GptqRows(words, 2, 0, 8, out.data(), 1);
  EXPECT_THAT(out, ElementsAre(0x80, 0x91, 0xA2, 0xB3, 0xC4, 0xD5, 0xE6, 0xF7));
}

TEST(Packing, GptqByColumnsIsATransposeOfWords) {
  // [K/8, N] = [2, 2] words; column 1 is words 1 and 3 one after the other.
  const uint32_t words[] = {0x76543210, 0x11111111, 0xFEDCBA98, 0x22222222};
  std::vector<uint32_t> out(4);
  CopyStrided({.rank = 2, .extent = {2, 2}, .in_stride = {1, 2}, .out_stride = {2, 1}}, 32, words,
              out.data());
  EXPECT_THAT(out, ElementsAre(0x76543210, 0xFEDCBA98, 0x11111111, 0x22222222));
}

TEST(Packing, GptqStoresOneLessThanTheZeroPoint) {
  const uint32_t words[] = {0x7F07E0FF};
  std::vector<uint32_t> out(1);
  GptqZeros(words, 1, out.data());
  EXPECT_THAT(out, ElementsAre(0x8018F100));
}

TEST(Packing, GptqWordsOfBytesHoldFourRowsOfAColumn) {
  const uint32_t words[] = {0x03020100, 0xF3F2F1F0};  // columns 0 and 1
  std::vector<uint8_t> out(8);
  GptqByteRows(words, 2, 0, 4, out.data(), 2);
  EXPECT_THAT(out, ElementsAre(0x00, 0xF0, 0x01, 0xF1, 0x02, 0xF2, 0x03, 0xF3));
}

TEST(Packing, GptqStoresOneLessThanAZeroPointOfAByte) {
  const uint32_t words[] = {0xFF7F00FE};
  std::vector<uint32_t> out(1);
  GptqByteZeros(words, 1, out.data());
  EXPECT_THAT(out, ElementsAre(0x008001FF));
}

TEST(Packing, AwqWordsInterleaveTheirColumns) {
  const uint32_t words[] = {0x75316420};  // nibble i is the column it holds
  std::vector<uint32_t> out(1);
  AwqToU4(words, 1, out.data());
  EXPECT_THAT(out, ElementsAre(0x76543210));
}

using PackingTargets = EveryTarget;
NPUBANK_ON_EVERY_TARGET(PackingTargets);

TEST_P(PackingTargets, AgreeOnEveryLengthWithoutTouchingTheNeighbours) {
  const uint64_t seed = PrintedSeed();
  for (const size_t words : {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 1000, 2049}) {
    Bytes in = RandomBytes(4 * words + 1, seed);
    in.erase(in.begin());
    Bytes expected(4 * words + 17, 0x5A);
    Bytes actual = expected;
    ReferenceGptqZeros(in.data(), words, expected.data() + 1);
    GptqZeros(in.data(), words, actual.data() + 1);
    EXPECT_EQ(FirstDifference(expected, actual), std::string::npos) << words << " words of zeros";
    ReferenceAwqToU4(in.data(), words, expected.data() + 1);
    AwqToU4(in.data(), words, actual.data() + 1);
    EXPECT_EQ(FirstDifference(expected, actual), std::string::npos) << words << " words of AWQ";

    ReferenceGptqByteZeros(in.data(), words, expected.data() + 1);
    GptqByteZeros(in.data(), words, actual.data() + 1);
    EXPECT_EQ(FirstDifference(expected, actual), std::string::npos) << words << " words of zeros of a byte";
    for (size_t first = 0; first < 4; ++first) {
      const size_t rows = 4 - first;
      Bytes expected_rows(rows * (words + 3) + 17, 0x5A);
      Bytes actual_rows = expected_rows;
      ReferenceGptqByteRows(in.data(), words, first, rows, expected_rows.data() + 1, words + 3);
      GptqByteRows(in.data(), words, first, rows, actual_rows.data() + 1, words + 3);
      EXPECT_EQ(FirstDifference(expected_rows, actual_rows), std::string::npos)
          << words << " columns of bytes, rows from " << first;
    }

    const size_t pitch = (words + 1) / 2 + 3;
    for (size_t first = 0; first < 8; first += 3) {
      const size_t rows = 8 - first;
      Bytes expected_rows(rows * pitch + 17, 0x5A);
      Bytes actual_rows = expected_rows;
      ReferenceGptqRows(in.data(), words, first, rows, expected_rows.data() + 1, pitch);
      GptqRows(in.data(), words, first, rows, actual_rows.data() + 1, pitch);
      EXPECT_EQ(FirstDifference(expected_rows, actual_rows), std::string::npos)
          << words << " columns, rows from " << first;
    }
  }
}

}  // namespace
}  // namespace npubank::kernels
