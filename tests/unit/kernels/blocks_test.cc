// GGUF blocks: by hand, and against the plain readers on every instruction set.
#include "npubank/lazy_tensor/kernels/blocks.h"

#include <cmath>

#include "gmock/gmock.h"
#include "npubank/tests/unit/kernels/every_target.h"

namespace npubank::kernels {
namespace {

constexpr BlockFormat kFormats[] = {BlockFormat::kQ4_0, BlockFormat::kQ4_1,  BlockFormat::kQ5_0,
                                    BlockFormat::kQ5_1, BlockFormat::kQ8_0,  BlockFormat::kQ2_K,
                                    BlockFormat::kQ3_K, BlockFormat::kQ4_K,  BlockFormat::kQ5_K,
                                    BlockFormat::kQ6_K, BlockFormat::kIQ4_NL};

// Halves used below.
constexpr uint16_t kHalfOne = 0x3C00;
constexpr uint16_t kHalfTwo = 0x4000;
constexpr uint16_t kHalfQuarter = 0x3400;

struct Block {
  explicit Block(BlockFormat f) : format(f), bytes(BlockBytes(f)) {}
  void PutHalf(size_t at, uint16_t half) {
    bytes[at] = static_cast<uint8_t>(half);
    bytes[at + 1] = static_cast<uint8_t>(half >> 8);
  }
  std::vector<float> Decode() const {
    std::vector<float> out(BlockLength(format));
    DequantizeBlocks(format, bytes.data(), ElementType::kF32, out.data(), 1);
    std::vector<float> plain(out.size());
    ReferenceDequantizeBlocks(format, bytes.data(), ElementType::kF32, plain.data(), 1);
    EXPECT_EQ(out, plain);
    return out;
  }
  BlockFormat format;
  Bytes bytes;
};

TEST(Blocks, FormatsKeepTheNumbersOfGgml) {
  EXPECT_EQ(BlockFormatFromNumber(2), BlockFormat::kQ4_0);
  EXPECT_EQ(BlockFormatFromNumber(14), BlockFormat::kQ6_K);
  EXPECT_EQ(BlockFormatFromNumber(20), BlockFormat::kIQ4_NL);
  for (const uint32_t other : {0u, 1u, 4u, 5u, 9u, 15u, 19u, 21u, ~0u}) {
    EXPECT_EQ(BlockFormatFromNumber(other), std::nullopt) << other;
  }
  EXPECT_STREQ(BlockFormatName(BlockFormat::kQ5_K), "Q5_K");
}

TEST(Blocks, Q4_0PutsTheSecondHalfInTheHighNibbles) {
  Block block(BlockFormat::kQ4_0);
  block.PutHalf(0, kHalfTwo);
  block.bytes[2] = 0xF0;   // weights 0 and 16
  block.bytes[17] = 0x38;  // weights 15 and 31
  const std::vector<float> out = block.Decode();
  EXPECT_EQ(out[0], -16.0f);  // 2 * (0 - 8)
  EXPECT_EQ(out[16], 14.0f);  // 2 * (15 - 8)
  EXPECT_EQ(out[15], 0.0f);
  EXPECT_EQ(out[31], -10.0f);
}

TEST(Blocks, Q4_1AddsItsMinimum) {
  Block block(BlockFormat::kQ4_1);
  block.PutHalf(0, kHalfTwo);
  block.PutHalf(2, kHalfQuarter);
  block.bytes[4] = 0xF1;
  const std::vector<float> out = block.Decode();
  EXPECT_EQ(out[0], 2.25f);
  EXPECT_EQ(out[16], 30.25f);
  EXPECT_EQ(out[1], 0.25f);
}

TEST(Blocks, Q5_0And5_1TakeTheFifthBitFromTheirMask) {
  Block symmetric(BlockFormat::kQ5_0);
  symmetric.PutHalf(0, kHalfOne);
  symmetric.bytes[2] = 0x01;  // fifth bit of weight 0
  symmetric.bytes[5] = 0x80;  // and of weight 31
  symmetric.bytes[6] = 0x03;
  symmetric.bytes[21] = 0xF0;
  std::vector<float> out = symmetric.Decode();
  EXPECT_EQ(out[0], 3.0f);  // 3 + 16 - 16
  EXPECT_EQ(out[1], -16.0f);
  EXPECT_EQ(out[31], 15.0f);  // 15 + 16 - 16

  Block affine(BlockFormat::kQ5_1);
  affine.PutHalf(0, kHalfOne);
  affine.PutHalf(2, kHalfQuarter);
  affine.bytes[5] = 0x02;  // fifth bit of weight 9
  affine.bytes[6] = 0x01;  // and of weight 16
  affine.bytes[8] = 0x40;  // weight 16: 4
  out = affine.Decode();
  EXPECT_EQ(out[9], 16.25f);
  EXPECT_EQ(out[16], 20.25f);
  EXPECT_EQ(out[0], 0.25f);
}

TEST(Blocks, Q8_0IsSignedBytes) {
  Block block(BlockFormat::kQ8_0);
  block.PutHalf(0, kHalfQuarter);
  block.bytes[2] = 0x80;
  block.bytes[33] = 0x7F;
  const std::vector<float> out = block.Decode();
  EXPECT_EQ(out[0], -32.0f);
  EXPECT_EQ(out[31], 31.75f);
}

TEST(Blocks, Iq4NlLooksLevelsUp) {
  Block block(BlockFormat::kIQ4_NL);
  block.PutHalf(0, kHalfOne);
  block.bytes[2] = 0xF8;
  const std::vector<float> out = block.Decode();
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[16], 113.0f);
  EXPECT_EQ(out[31], -127.0f);
}

TEST(Blocks, Q2_KHasAScaleAndAMinimumForSixteen) {
  Block block(BlockFormat::kQ2_K);
  block.PutHalf(80, kHalfTwo);      // d
  block.PutHalf(82, kHalfQuarter);  // dmin
  block.bytes[0] = 0x43;            // weights 0 to 15: scale 3, minimum 4
  block.bytes[1] = 0x05;            // 16 to 31: scale 5
  block.bytes[8 + 6] = 0x1F;        // 224 to 239: scale 15, minimum 1
  block.bytes[16] = 0x02;           // weight 0 is 2; 32, 64 and 96 are 0
  block.bytes[16 + 31] = 0x43;      // weight 31 is 3; weight 127 is 1
  block.bytes[16 + 32] = 0xC0;      // weight 128 + 96 is 3
  const std::vector<float> out = block.Decode();
  EXPECT_EQ(out[0], 11.0f);     // (2 * 3) * 2 - 0.25 * 4
  EXPECT_EQ(out[1], -1.0f);     // 0 - 0.25 * 4
  EXPECT_EQ(out[31], 30.0f);    // (2 * 5) * 3
  EXPECT_EQ(out[127], 0.0f);    // its scale is 0
  EXPECT_EQ(out[224], 89.75f);  // (2 * 15) * 3 - 0.25
}

TEST(Blocks, Q3_KTakesFourOffWhereTheThirdBitIsMissing) {
  Block block(BlockFormat::kQ3_K);
  block.PutHalf(108, kHalfOne);
  block.bytes[0] = 0x01;        // third bit of weight 0
  block.bytes[31] = 0x80;       // and of weight 7 * 32 + 31 = 255
  block.bytes[32] = 0x03;       // weight 0: 3
  block.bytes[32 + 63] = 0x40;  // weight 255: 1
  // Scale 0 is 5 + 16 * 2 - 32 = 5, scale 15 is 15 + 16 * 3 - 32 = 31, all others 0 + 0 - 32 but
  // those that share their bytes.
  block.bytes[96 + 0] = 0x05;   // low bits of scale 0
  block.bytes[96 + 7] = 0xF0;   // low bits of scale 15
  block.bytes[96 + 8] = 0x02;   // upper bits of scale 0
  block.bytes[96 + 11] = 0xC0;  // upper bits of scale 15
  const std::vector<float> out = block.Decode();
  EXPECT_EQ(out[0], 15.0f);    // 5 * 3
  EXPECT_EQ(out[1], -20.0f);   // 5 * (0 - 4)
  EXPECT_EQ(out[255], 31.0f);  // 31 * 1
  EXPECT_EQ(out[254], -124.0f);
  EXPECT_EQ(out[16], 128.0f);  // -32 * (0 - 4)
}

TEST(Blocks, Q4_KHasSixBitScalesAndMinima) {
  Block block(BlockFormat::kQ4_K);
  block.PutHalf(0, kHalfTwo);
  block.PutHalf(2, kHalfQuarter);
  block.bytes[4 + 0] = 0xC0 | 7;     // scale 0 is 7; the upper bits of scale 4 are 3
  block.bytes[4 + 4] = 0x40 | 12;    // minimum 0 is 12; the upper bits of minimum 4 are 1
  block.bytes[4 + 8] = 0x52;         // low bits of scale 4: 2, of minimum 4: 5
  block.bytes[16] = 0x03;            // weight 0: 3
  block.bytes[16 + 64] = 0x0F;       // weight 128, of group 4: 15
  block.bytes[16 + 96 + 31] = 0x70;  // weight 255, of group 7: 7
  const std::vector<float> out = block.Decode();
  EXPECT_EQ(out[0], 39.0f);   // (2 * 7) * 3 - 0.25 * 12
  EXPECT_EQ(out[31], -3.0f);  // 0 - 0.25 * 12
  EXPECT_EQ(out[32], 0.0f);
  EXPECT_EQ(out[128], 1494.75f);  // (2 * (2 + 48)) * 15 - 0.25 * (5 + 16)
  EXPECT_EQ(out[255], 0.0f);      // scale and minimum 7 are 0
}

TEST(Blocks, Q5_KAddsAFifthBit) {
  Block block(BlockFormat::kQ5_K);
  block.PutHalf(0, kHalfOne);
  block.PutHalf(2, kHalfOne);
  block.bytes[4 + 1] = 2;        // scale 1
  block.bytes[4 + 5] = 3;        // minimum 1
  block.bytes[4 + 11] = 0x11;    // scale and minimum 7
  block.bytes[16 + 5] = 0x02;    // fifth bit of weight 32 + 5
  block.bytes[16 + 31] = 0x80;   // fifth bit of weight 255
  block.bytes[48 + 5] = 0x90;    // weight 32 + 5: 9
  block.bytes[48 + 127] = 0xF0;  // weight 255: 15
  const std::vector<float> out = block.Decode();
  EXPECT_EQ(out[37], 47.0f);  // 2 * (9 + 16) - 3
  EXPECT_EQ(out[36], -3.0f);
  EXPECT_EQ(out[255], 30.0f);  // (15 + 16) - 1
  EXPECT_EQ(out[0], 0.0f);
}

TEST(Blocks, Q6_KHasSignedScalesForSixteen) {
  Block block(BlockFormat::kQ6_K);
  block.PutHalf(208, kHalfQuarter);
  block.bytes[192] = 0xFF;       // scale 0: -1
  block.bytes[192 + 5] = 4;      // scale of weights 80 to 95
  block.bytes[192 + 15] = 0x80;  // scale 15: -128
  block.bytes[0] = 0x0F;         // weight 0: low bits 15
  block.bytes[128] = 0x03;       // and upper bits 3
  block.bytes[16] = 0x20;        // weight 80: low bits 2, in the high nibble of byte 80 - 64
  block.bytes[128 + 16] = 0x20;  // and upper bits 2, in the third pair
  block.bytes[64 + 63] = 0x10;   // weight 255: low bits 1
  block.bytes[128 + 63] = 0x80;  // and upper bits 2
  const std::vector<float> out = block.Decode();
  EXPECT_EQ(out[0], -7.75f);    // 0.25 * -1 * (63 - 32)
  EXPECT_EQ(out[1], 8.0f);      // 0.25 * -1 * -32
  EXPECT_EQ(out[80], 2.0f);     // 0.25 * 4 * (34 - 32)
  EXPECT_EQ(out[255], -32.0f);  // 0.25 * -128 * (33 - 32)
}

using BlocksTargets = EveryTarget;
NPUBANK_ON_EVERY_TARGET(BlocksTargets);

// Random bits, but scales that are numbers: which NaN a sum of two gives is nobody's promise.
Bytes RandomBlocks(BlockFormat format, size_t blocks, uint64_t seed) {
  Bytes bytes = RandomBytes(blocks * BlockBytes(format), seed);
  const size_t halves[] = {0, 2, 80, 82, 108, 208};
  for (size_t b = 0; b < blocks; ++b) {
    for (const size_t at : halves) {
      if (at + 1 >= BlockBytes(format)) continue;
      uint8_t& high = bytes[b * BlockBytes(format) + at + 1];
      if ((high & 0x7C) == 0x7C) high &= 0xBF;
    }
  }
  return bytes;
}

TEST_P(BlocksTargets, AgreeOnRandomBlocksOfEveryFormat) {
  const uint64_t seed = PrintedSeed();
  for (const BlockFormat format : kFormats) {
    const Bytes in = RandomBlocks(format, 77, seed);
    for (const ElementType to : {ElementType::kF32, ElementType::kF16, ElementType::kBF16}) {
      for (const size_t blocks : {0, 1, 2, 3, 4, 5, 31, 32, 33, 77}) {
        Bytes expected(blocks * BlockLength(format) * 4 + 81, 0x5A);
        Bytes actual = expected;
        const size_t line = 64 - reinterpret_cast<uintptr_t>(actual.data()) % 64;
        const Bytes exact(in.begin(),
                          in.begin() + static_cast<ptrdiff_t>(blocks * BlockBytes(format)));
        for (const size_t at : {line, line + 1}) {
          ReferenceDequantizeBlocks(format, exact.data(), to, expected.data() + at, blocks);
          DequantizeBlocks(format, exact.data(), to, actual.data() + at, blocks, /*stream=*/true);
          ASSERT_EQ(FirstDifference(expected, actual), std::string::npos)
              << BlockFormatName(format) << " to " << static_cast<int>(to) << ", " << blocks
              << " blocks";
        }
      }
    }
  }
}

}  // namespace
}  // namespace npubank::kernels
