// The operations that compute, on numbers that can be checked by hand.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank {
namespace {

using Bytes = std::vector<std::byte>;

TensorType Type(ElementType element, const std::vector<int64_t>& dims) {
  return *TensorType::Create(element, *Shape::Create(dims));
}

template <typename T>
RecipePtr Stored(ElementType element, const std::vector<int64_t>& dims,
                 const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return *Recipe::Constant(Source::FromBuffer(std::move(bytes), "values"), 0, Type(element, dims),
                           "values");
}

template <typename T>
std::vector<T> Values(const absl::StatusOr<RecipePtr>& recipe) {
  EXPECT_EQ(recipe.status(), absl::OkStatus());
  Bytes bytes((*recipe)->type().bytes());
  EXPECT_EQ(Evaluate(**recipe, absl::MakeSpan(bytes), {}), absl::OkStatus());
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

using Floats = std::vector<float>;
using Nibbles = std::vector<uint8_t>;  // two to a byte, the first in the low half

// Weights 1 2 3 4 / 5 6 7 8.
RecipePtr Weights() { return Stored<uint8_t>(ElementType::kU4, {2, 4}, {0x21, 0x43, 0x65, 0x87}); }

TEST(Unpack, TakesOneScaleForTheWholeTensor) {
  const RecipePtr scale = Stored<float>(ElementType::kF32, {}, {0.5f});
  EXPECT_EQ(Values<float>(Recipe::Unpack(Weights(), scale, nullptr, ElementType::kF32)),
            (Floats{0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4}));
}

TEST(Unpack, TakesAScaleAndAZeroPointPerChannel) {
  const RecipePtr scale = Stored<float>(ElementType::kF32, {2, 1}, {1, 10});
  const RecipePtr zero = Stored<int8_t>(ElementType::kI8, {2, 1}, {1, -2});
  EXPECT_EQ(Values<float>(Recipe::Unpack(Weights(), scale, zero, ElementType::kF32)),
            (Floats{0, 1, 2, 3, 70, 80, 90, 100}));
}

TEST(Unpack, TakesGroupsAlongTheLastAxis) {
  const RecipePtr scale = Stored<float>(ElementType::kF32, {2, 2}, {1, 2, 3, 4});
  const RecipePtr zero = Stored<uint8_t>(ElementType::kU4, {2, 2}, {0x10, 0x32});  // 0 1 2 3
  EXPECT_EQ(Values<float>(Recipe::Unpack(Weights(), scale, zero, ElementType::kF32)),
            (Floats{1, 2, 4, 6, 9, 12, 16, 20}));
}

TEST(Unpack, TakesGroupsAlongTheFirstAxis) {
  const RecipePtr scale = Stored<float>(ElementType::kF32, {1, 4}, {1, 2, 3, 4});
  const RecipePtr zero = Stored<float>(ElementType::kF32, {1}, {1});
  EXPECT_EQ(Values<float>(Recipe::Unpack(Weights(), scale, zero, ElementType::kF32)),
            (Floats{0, 2, 6, 12, 4, 10, 18, 28}));
}

TEST(Unpack, RoundsAndSaturatesToEightBits) {
  const RecipePtr scale = Stored<float>(ElementType::kF32, {2, 1}, {0.5f, 100});
  EXPECT_EQ(Values<int8_t>(Recipe::Unpack(Weights(), scale, nullptr, ElementType::kI8)),
            (std::vector<int8_t>{0, 1, 2, 2, 127, 127, 127, 127}));
}

TEST(Unpack, RefusesWhatDoesNotFit) {
  const RecipePtr w = Weights();
  const RecipePtr scale = Stored<float>(ElementType::kF32, {2, 2}, {1, 2, 3, 4});
  const auto ones = [](const std::vector<int64_t>& dims) {
    return *Recipe::Splat(Type(ElementType::kF32, dims), 0x3f800000);
  };
  for (const auto& refused : {Recipe::Unpack(w, ones({2, 3}), nullptr, ElementType::kF32),
                              Recipe::Unpack(w, ones({2}), nullptr, ElementType::kF32),
                              Recipe::Unpack(w, ones({4, 4}), nullptr, ElementType::kF32),
                              Recipe::Unpack(w, ones({0, 4}), nullptr, ElementType::kF32),
                              Recipe::Unpack(w, scale, ones({2, 4}), ElementType::kF32),
                              Recipe::Unpack(w, w, nullptr, ElementType::kF32),
                              Recipe::Unpack(w, scale, nullptr, ElementType::kI64),
                              Recipe::Unpack(w, nullptr, nullptr, ElementType::kF32)}) {
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Gather, LooksUpEveryIndexInTheTable) {
  std::vector<int16_t> table(16);
  for (int i = 0; i < 16; ++i) table[i] = static_cast<int16_t>(i * i - 50);
  const RecipePtr book = Stored<int16_t>(ElementType::kI16, {16}, table);
  EXPECT_EQ(Values<int16_t>(Recipe::Gather(Weights(), book)),
            (std::vector<int16_t>{-49, -46, -41, -34, -25, -14, -1, 14}));
}

TEST(Gather, RefusesATableThatAnIndexCouldLeave) {
  const RecipePtr book = *Recipe::Splat(Type(ElementType::kF16, {15}), 0);
  const RecipePtr square = *Recipe::Splat(Type(ElementType::kF16, {4, 4}), 0);
  EXPECT_FALSE(Recipe::Gather(Weights(), book).ok());
  EXPECT_FALSE(Recipe::Gather(Weights(), square).ok());
  EXPECT_FALSE(Recipe::Gather(book, book).ok());
}

TEST(Gather, OfRowsTakesThemInTheOrderOfTheIndices) {
  const RecipePtr table = Stored<int16_t>(ElementType::kI16, {3, 2}, {10, 11, 20, 21, 30, 31});
  const RecipePtr which = Stored<int32_t>(ElementType::kI32, {4}, {2, 0, 1, 2});
  EXPECT_EQ(Values<int16_t>(Recipe::Gather(which, table)),
            (std::vector<int16_t>{30, 31, 10, 11, 20, 21, 30, 31}));
  // Four-bit rows, which end within a byte.
  const RecipePtr nibbles = Stored<uint8_t>(ElementType::kU4, {2, 3}, {0x21, 0x43, 0x65});
  const RecipePtr swapped = Stored<int32_t>(ElementType::kI32, {2}, {1, 0});
  EXPECT_EQ(Values<uint8_t>(Recipe::Gather(swapped, nibbles)), (Nibbles{0x54, 0x16, 0x32}));
}

TEST(Gather, ARowThatIsNotThereIsNamedAndNeverRead) {
  const RecipePtr table = Stored<int16_t>(ElementType::kI16, {3, 2}, {10, 11, 20, 21, 30, 31});
  const auto refused = [&](const std::vector<int32_t>& indices, const std::string& why) {
    const auto which =
        Stored<int32_t>(ElementType::kI32, {static_cast<int64_t>(indices.size())}, indices);
    const auto rows = Recipe::Gather(which, table);
    ASSERT_EQ(rows.status(), absl::OkStatus());
    Bytes bytes(static_cast<size_t>((*rows)->type().bytes()));
    const absl::Status status = Evaluate(**rows, absl::MakeSpan(bytes), {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(why), absl::string_view::npos) << status;
  };
  refused({0, 3}, "gather of rows of I16[3,2]: number 1 asks for row 3");
  refused({1, 2, 3, 4}, "number 2 asks for row 3");
  refused({0, -1, 0}, "number 1 asks for row -1");
  refused({INT32_MAX}, "number 0 asks for row 2147483647");
  refused({INT32_MIN}, "asks for row -2147483648");
}

TEST(Gather, OfRowsRefusesWhatHasNone) {
  const RecipePtr which = Stored<int32_t>(ElementType::kI32, {2}, {0, 0});
  const RecipePtr square = Stored<int32_t>(ElementType::kI32, {1, 2}, {0, 0});
  EXPECT_FALSE(Recipe::Gather(which, *Recipe::Splat(Type(ElementType::kF16, {}), 0)).ok());
  EXPECT_FALSE(Recipe::Gather(which, *Recipe::Splat(Type(ElementType::kF16, {0, 4}), 0)).ok());
  EXPECT_FALSE(Recipe::Gather(square, Weights()).ok());
}

TEST(Shift, MovesTheMiddleOfTheRangeAndBack) {
  const RecipePtr bytes = Stored<uint8_t>(ElementType::kU8, {4}, {0, 1, 128, 255});
  const RecipePtr moved = *Recipe::Shift(bytes);
  EXPECT_EQ(moved->type().element(), ElementType::kI8);
  EXPECT_EQ(Values<int8_t>(moved), (std::vector<int8_t>{-128, -127, 0, 127}));
  EXPECT_EQ(Values<uint8_t>(Recipe::Shift(moved)), (Nibbles{0, 1, 128, 255}));
  EXPECT_EQ(Values<uint8_t>(Recipe::Shift(Weights())), (Nibbles{0xa9, 0xcb, 0xed, 0x0f}));
  EXPECT_FALSE(Recipe::Shift(*Recipe::Splat(Type(ElementType::kF16, {4}), 0)).ok());
}

// weight - zero is the same before and after both are shifted.
TEST(Shift, OfWeightsAndZeroPointKeepsTheProduct) {
  const RecipePtr w = Stored<uint8_t>(ElementType::kU8, {4}, {0, 1, 128, 255});
  const RecipePtr zero = Stored<uint8_t>(ElementType::kU8, {1}, {130});
  const RecipePtr scale = Stored<float>(ElementType::kF32, {1}, {2});
  EXPECT_EQ(Values<float>(Recipe::Unpack(w, scale, zero, ElementType::kF32)),
            Values<float>(
                Recipe::Unpack(*Recipe::Shift(w), scale, *Recipe::Shift(zero), ElementType::kF32)));
}

TEST(Splat, RepeatsOneElementWithoutASource) {
  const RecipePtr ones = *Recipe::Splat(Type(ElementType::kF32, {3}), 0x3f800000);
  EXPECT_EQ(Values<float>(ones), (Floats{1, 1, 1}));
  EXPECT_EQ(ones->SourceBytes(), 0u);
  EXPECT_TRUE(ones->Persistent());
  EXPECT_EQ(Values<uint8_t>(Recipe::Splat(Type(ElementType::kU4, {3}), 7)), (Nibbles{0x77, 0x07}));
  EXPECT_FALSE(Recipe::Splat(Type(ElementType::kU4, {3}), 16).ok());
}

// Words whose nibbles count up from the lowest.
RecipePtr Words(const std::vector<int64_t>& dims) {
  return Stored<uint32_t>(ElementType::kI32, dims, {0x76543210, 0xfedcba98});
}

TEST(UnpackNibbles, OfGptqWeightsLeadDownTheRows) {
  // Words [1, 2] to [8, 2]: column 0 is 0..7, column 1 is 8..15.
  EXPECT_EQ(Values<uint8_t>(Recipe::UnpackNibbles(Words({1, 2}), NibbleLayout::kRows)),
            (Nibbles{0x80, 0x91, 0xa2, 0xb3, 0xc4, 0xd5, 0xe6, 0xf7}));
}

TEST(UnpackNibbles, OfGptqZeroPointsAreInOrderAndVersionOneStoresOneLess) {
  EXPECT_EQ(Values<uint8_t>(Recipe::UnpackNibbles(Words({2, 1}), NibbleLayout::kColumns)),
            (Nibbles{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}));
  EXPECT_EQ(Values<uint8_t>(Recipe::UnpackNibbles(Words({2, 1}), NibbleLayout::kColumnsPlusOne)),
            (Nibbles{0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f}));
}

// Nibble i of a word is column {0, 2, 4, 6, 1, 3, 5, 7}[i]: column 1 is nibble 4, and so on.
TEST(UnpackNibbles, OfAwqAreInTheirColumnsOrder) {
  EXPECT_EQ(Values<uint8_t>(Recipe::UnpackNibbles(Words({1, 2}), NibbleLayout::kColumnsAwq)),
            (Nibbles{0x40, 0x51, 0x62, 0x73, 0xc8, 0xd9, 0xea, 0xfb}));
}

TEST(UnpackNibbles, OfEightBitsAreTheBytesOfTheirWords) {
  EXPECT_EQ(Values<uint8_t>(Recipe::UnpackNibbles(Words({2, 1}), NibbleLayout::kBytes)),
            (std::vector<uint8_t>{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}));
}

TEST(UnpackNibbles, OfEightBitGptqAreBytesDownTheRowsAndZeroPointsOneLess) {
  EXPECT_EQ(Values<uint8_t>(Recipe::UnpackNibbles(Words({1, 2}), NibbleLayout::kByteRows)),
            (std::vector<uint8_t>{0x10, 0x98, 0x32, 0xba, 0x54, 0xdc, 0x76, 0xfe}));
  const RecipePtr zeros = Stored<uint32_t>(ElementType::kI32, {1, 1}, {0xff7f00fe});
  EXPECT_EQ(Values<uint8_t>(Recipe::UnpackNibbles(zeros, NibbleLayout::kBytesPlusOne)),
            (std::vector<uint8_t>{0xff, 0x01, 0x80, 0x00}));
}

TEST(UnpackNibbles, RefusesOtherWords) {
  EXPECT_FALSE(Recipe::UnpackNibbles(Words({2}), NibbleLayout::kRows).ok());
  EXPECT_FALSE(Recipe::UnpackNibbles(Words({}), NibbleLayout::kColumns).ok());
  EXPECT_FALSE(Recipe::UnpackNibbles(Weights(), NibbleLayout::kRows).ok());
}

TEST(DequantizeBlocks, OfQ8IsScaleTimesByte) {
  // d = 0.5 in F16, then 32 signed bytes.
  std::vector<uint8_t> block(34);
  block[1] = 0x38;
  for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<uint8_t>(i - 16);
  const RecipePtr bytes = Stored<uint8_t>(ElementType::kU8, {1, 34}, block);
  Floats expected(32);
  for (int i = 0; i < 32; ++i) expected[i] = 0.5f * static_cast<float>(i - 16);
  const auto made = Recipe::DequantizeBlocks(bytes, kernels::BlockFormat::kQ8_0, ElementType::kF32);
  EXPECT_EQ((*made)->type(), Type(ElementType::kF32, {1, 32}));
  EXPECT_EQ(Values<float>(made), expected);
}

// d = 0.5, m = -2 in F16, then nibbles: number i of 32 is i % 16.
std::vector<uint8_t> BlockOfQ4_1() {
  std::vector<uint8_t> block = {0x00, 0x38, 0x00, 0xc0};
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<uint8_t>(i * 0x11));
  return block;
}

TEST(CopyBlockPlane, TakesNumbersScalesAndMinimaApart) {
  using kernels::BlockFormat, kernels::BlockPlane;
  const RecipePtr bytes = Stored<uint8_t>(ElementType::kU8, {1, 20}, BlockOfQ4_1());
  const auto numbers = Recipe::CopyBlockPlane(bytes, BlockFormat::kQ4_1, BlockPlane::kNumbers);
  EXPECT_EQ((*numbers)->type(), Type(ElementType::kU4, {1, 32}));
  EXPECT_EQ(Values<uint8_t>(numbers),
            (Nibbles{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe,  //
                     0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}));
  const auto scale = Recipe::CopyBlockPlane(bytes, BlockFormat::kQ4_1, BlockPlane::kScale);
  EXPECT_EQ((*scale)->type(), Type(ElementType::kF16, {1, 1}));
  EXPECT_EQ(Values<uint16_t>(scale), std::vector<uint16_t>{0x3800});
  EXPECT_EQ(Values<uint16_t>(
                Recipe::CopyBlockPlane(bytes, BlockFormat::kQ4_1, BlockPlane::kMin)),
            std::vector<uint16_t>{0xc000});
}

// Q4_0 means its numbers less 8: the planes' I4 is that.
TEST(CopyBlockPlane, OfQ4_0IsSigned) {
  using kernels::BlockFormat, kernels::BlockPlane;
  std::vector<uint8_t> block = BlockOfQ4_1();
  block.erase(block.begin(), block.begin() + 2);
  const RecipePtr bytes = Stored<uint8_t>(ElementType::kU8, {1, 18}, block);
  const auto numbers = Recipe::CopyBlockPlane(bytes, BlockFormat::kQ4_0, BlockPlane::kNumbers);
  EXPECT_EQ((*numbers)->type(), Type(ElementType::kI4, {1, 32}));
  EXPECT_EQ(Values<uint8_t>(numbers),
            (Nibbles{0x98, 0xba, 0xdc, 0xfe, 0x10, 0x32, 0x54, 0x76,  //
                     0x98, 0xba, 0xdc, 0xfe, 0x10, 0x32, 0x54, 0x76}));
}

TEST(CopyBlockPlane, RefusesFormatsWithoutPlanesAndRowsThatAreNotWhole) {
  using kernels::BlockFormat, kernels::BlockPlane;
  const RecipePtr bytes = *Recipe::Splat(Type(ElementType::kU8, {2, 144}), 0);
  const auto refusal = [&](BlockFormat format, BlockPlane plane) {
    return std::string(Recipe::CopyBlockPlane(bytes, format, plane).status().message());
  };
  EXPECT_NE(refusal(BlockFormat::kQ4_K, BlockPlane::kScale).find("Q4_K has no plane of scales"),
            std::string::npos);
  EXPECT_NE(refusal(BlockFormat::kQ4_0, BlockPlane::kMin).find("no plane of minima"),
            std::string::npos);
  EXPECT_NE(refusal(BlockFormat::kQ4_1, BlockPlane::kNumbers).find("U8[2,144]"), std::string::npos);
  EXPECT_FALSE(Recipe::CopyBlockPlane(nullptr, BlockFormat::kQ4_0, BlockPlane::kScale).ok());
}

TEST(DequantizeBlocks, RefusesRowsThatAreNotWholeBlocks) {
  const RecipePtr bytes = *Recipe::Splat(Type(ElementType::kU8, {2, 33}), 0);
  const auto refused =
      Recipe::DequantizeBlocks(bytes, kernels::BlockFormat::kQ8_0, ElementType::kF32);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(refused.status().message()).find("U8[2,33]"), std::string::npos);
}

}  // namespace
}  // namespace npubank
