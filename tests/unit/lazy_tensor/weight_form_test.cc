#include "npubank/lazy_tensor/weight_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace npubank {
namespace {

using ::testing::HasSubstr;
using kernels::BlockFormat;
using Offset = WeightForm::Offset;

TensorType Type(ElementType element, std::vector<int64_t> dims) {
  return *TensorType::Create(element, *Shape::Create(dims));
}

std::string NumbersOf(const WeightForm& form, const std::vector<TensorType>& parts) {
  const auto numbers = form.Numbers(parts);
  return numbers.ok() ? numbers->ToString() : std::string(numbers.status().message());
}

TEST(WeightForm, SaysWhichNumbersItsPartsHold) {
  EXPECT_EQ(NumbersOf(WeightForm(), {Type(ElementType::kBF16, {3})}), "BF16[3]");
  EXPECT_EQ(NumbersOf(WeightForm::Blocks(BlockFormat::kQ4_0), {Type(ElementType::kU8, {5, 36})}),
            "F32[5,64]");
  EXPECT_EQ(NumbersOf(WeightForm::Blocks(BlockFormat::kQ6_K), {Type(ElementType::kU8, {2, 210})}),
            "F32[2,256]");
  const TensorType scale = Type(ElementType::kF16, {6, 2});
  EXPECT_EQ(NumbersOf(WeightForm::Planes(Offset::kNone), {Type(ElementType::kI4, {6, 64}), scale}),
            "F32[6,64]");
  EXPECT_EQ(NumbersOf(WeightForm::Planes(Offset::kZero),
                      {Type(ElementType::kU8, {6, 64}), scale, Type(ElementType::kU8, {6, 2})}),
            "F32[6,64]");
  EXPECT_EQ(NumbersOf(WeightForm::Planes(Offset::kMin),
                      {Type(ElementType::kU4, {6, 64}), scale, scale}),
            "F32[6,64]");
  EXPECT_EQ(NumbersOf(WeightForm::Gptq(true),
                      {Type(ElementType::kI32, {8, 16}), Type(ElementType::kF16, {2, 16}),
                       Type(ElementType::kI32, {2, 2})}),
            "F32[64,16]");
  const TensorType byte_zeros = Type(ElementType::kI32, {2, 4});
  EXPECT_EQ(NumbersOf(WeightForm::Gptq(true, 8),
                      {Type(ElementType::kI32, {16, 16}), Type(ElementType::kF16, {2, 16}), byte_zeros}),
            "F32[64,16]");
  EXPECT_EQ(NumbersOf(WeightForm::Gptq(true, 8, /*groups_listed=*/true),
                      {Type(ElementType::kI32, {16, 16}), Type(ElementType::kF16, {2, 16}), byte_zeros,
                       Type(ElementType::kI32, {64})}),
            "F32[64,16]");
  EXPECT_EQ(NumbersOf(WeightForm::Awq(),
                      {Type(ElementType::kI32, {64, 2}), Type(ElementType::kF16, {2, 16}),
                       Type(ElementType::kI32, {2, 2})}),
            "F32[64,16]");
  EXPECT_EQ(NumbersOf(WeightForm::Rows(8),
                      {Type(ElementType::kI32, {6, 16}), Type(ElementType::kBF16, {6, 1})}),
            "F32[6,64]");
  EXPECT_EQ(NumbersOf(WeightForm::Rows(4), {Type(ElementType::kI32, {6, 8}), scale}), "F32[6,64]");
}

TEST(WeightForm, RefusesPartsThatDoNotFitByForm) {
  const TensorType u4 = Type(ElementType::kU4, {6, 64});
  const TensorType scale = Type(ElementType::kF16, {6, 2});
  const TensorType words = Type(ElementType::kI32, {8, 16});
  const TensorType word_scale = Type(ElementType::kF16, {2, 16});
  struct Wrong {
    WeightForm form;
    std::vector<TensorType> parts;
    std::string why;
  };
  const std::vector<Wrong> wrongs = {
      {WeightForm(), {u4, scale}, "are no plain"},
      {WeightForm::Blocks(BlockFormat::kQ4_0), {Type(ElementType::kU8, {5, 35})}, "no Q4_0 blocks"},
      {WeightForm::Blocks(BlockFormat::kQ4_0), {Type(ElementType::kI8, {5, 36})}, "I8[5,36]"},
      {WeightForm::Blocks(BlockFormat::kQ4_0), {Type(ElementType::kU8, {5, 0})}, "U8[5,0]"},
      {WeightForm::Blocks(BlockFormat::kQ4_0), {Type(ElementType::kU8, {36})}, "U8[36]"},
      {WeightForm::Blocks(BlockFormat::kQ4_0), {}, "no Q4_0"},
      {WeightForm::Planes(Offset::kNone), {u4}, "no planes"},
      {WeightForm::Planes(Offset::kNone), {u4, Type(ElementType::kI32, {6, 2})}, "I32[6,2]"},
      {WeightForm::Planes(Offset::kNone), {u4, Type(ElementType::kF16, {5, 2})}, "F16[5,2]"},
      {WeightForm::Planes(Offset::kNone), {u4, Type(ElementType::kF16, {6, 3})}, "F16[6,3]"},
      {WeightForm::Planes(Offset::kNone), {u4, Type(ElementType::kF16, {6, 0})}, "F16[6,0]"},
      {WeightForm::Planes(Offset::kNone), {Type(ElementType::kF16, {6, 64}), scale}, "no planes"},
      {WeightForm::Planes(Offset::kZero), {u4, scale, scale}, "zero points"},
      {WeightForm::Planes(Offset::kZero), {u4, scale, Type(ElementType::kU4, {6, 1})}, "U4[6,1]"},
      {WeightForm::Planes(Offset::kMin), {u4, scale, Type(ElementType::kU4, {6, 2})}, "minima"},
      {WeightForm::Gptq(true), {words, word_scale, Type(ElementType::kI32, {2, 3})}, "GPTQ words"},
      {WeightForm::Gptq(true), {words, word_scale, Type(ElementType::kU4, {2, 2})}, "U4[2,2]"},
      {WeightForm::Gptq(true),
       {words, Type(ElementType::kF16, {3, 16}), Type(ElementType::kI32, {3, 2})},
       "F16[3,16]"},
      {WeightForm::Awq(), {words, word_scale, Type(ElementType::kI32, {2, 2})}, "no AWQ words"},
      {WeightForm::Gptq(false),
       {Type(ElementType::kI32, {8, 12}), Type(ElementType::kF16, {2, 12}), Type(ElementType::kI32, {2, 1})},
       "version 2"},
      {WeightForm::Gptq(false, 8),
       {words, word_scale, Type(ElementType::kI32, {2, 2})},
       "GPTQ words of version 2 of bytes"},
      {WeightForm::Gptq(true, 4, true), {words, word_scale, Type(ElementType::kI32, {2, 2})}, "in listed groups"},
      {WeightForm::Gptq(true, 4, true),
       {words, word_scale, Type(ElementType::kI32, {2, 2}), Type(ElementType::kI32, {63})},
       "I32[63]"},
      {WeightForm::Gptq(true, 4, true),
       {words, word_scale, Type(ElementType::kI32, {2, 2}), Type(ElementType::kF32, {64})},
       "F32[64]"},
      {WeightForm::Gptq(true, 4, true),
       {words, word_scale, Type(ElementType::kI32, {2, 2}), Type(ElementType::kI32, {64, 1})},
       "I32[64,1]"},
      {WeightForm::Rows(8), {words, Type(ElementType::kF16, {7, 1})}, "no rows of 8-bit words"},
      {WeightForm::Rows(8), {words, Type(ElementType::kF16, {8, 3})}, "F16[8,3]"},
      {WeightForm::Rows(8), {words, Type(ElementType::kI32, {8, 1})}, "I32[8,1]"},
      {WeightForm::Rows(4), {Type(ElementType::kU8, {8, 16}), Type(ElementType::kF16, {8, 1})}, "U8[8,16]"},
      {WeightForm::Rows(4), {words, Type(ElementType::kF16, {8, 1}), word_scale}, "no rows of 4-bit words"},
  };
  for (const Wrong& wrong : wrongs) {
    EXPECT_FALSE(wrong.form.Numbers(wrong.parts).ok());
    EXPECT_THAT(NumbersOf(wrong.form, wrong.parts), HasSubstr(wrong.why));
  }
}

TEST(WeightForm, SizesThatOverflowAreRefused) {
  const int64_t huge = int64_t{1} << 61;
  EXPECT_FALSE(WeightForm::Awq()
                   .Numbers({Type(ElementType::kI32, {1, huge / 2}), Type(ElementType::kF16, {1, 8}),
                             Type(ElementType::kI32, {1, 1})})
                   .ok());
  EXPECT_FALSE(WeightForm::Rows(4)
                   .Numbers({Type(ElementType::kI32, {1, huge / 2}), Type(ElementType::kF16, {1, 1})})
                   .ok());
  EXPECT_FALSE(WeightForm::Blocks(BlockFormat::kQ2_K)
                   .Numbers({Type(ElementType::kU8, {1, huge / 84 * 84})})
                   .ok());
}

TEST(WeightForm, ReadsBackFromItsNumberAndKnowsNoOther) {
  size_t known = 0;
  for (uint32_t kind = 0; kind < 8; ++kind) {
    for (uint32_t detail = 0; detail < 64; ++detail) {
      const auto form = WeightForm::FromNumber(kind << 16 | detail);
      if (!form.has_value()) continue;
      ++known;
      EXPECT_EQ(form->Number(), kind << 16 | detail);
      EXPECT_FALSE(form->Parts().empty());
    }
  }
  EXPECT_EQ(known, 1u + 11 + 3 + 8 + 1 + 2);  // plain, blocks, planes, GPTQ, AWQ, rows
  EXPECT_FALSE(WeightForm::FromNumber(0xFFFFFFFF).has_value());
}

}  // namespace
}  // namespace npubank
