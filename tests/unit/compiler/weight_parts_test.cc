// Functions over weights in parts: what the blob's reader takes and refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/compiler_stub/blob/op_rules.h"
#include "npubank/tests/unit/compiler/function_maker.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;
using kernels::BlockFormat;

enum Value : uint32_t { kIds, kTable, kNumbers, kScale, kZero, kWords, kWordScale, kWordZero };
enum Op : size_t { kEmbed, kPlanes, kAwq };

// x = a look-up in Q4_0 blocks [10, 64]; y = x times planes [64, 64], plus x; z = y times words [64, 16].
Function MakeParts() {
  FunctionMaker f("parts");
  f.Input("ids", I32({3}));
  f.Input("table", Type(ElementType::kU8, {10, 36}));
  f.Input("w", Type(ElementType::kU4, {64, 64}));
  f.Input("w (scale)", Type(ElementType::kF16, {64, 2}));
  f.Input("w (zero)", Type(ElementType::kU4, {64, 2}));
  f.Input("v", I32({64, 2}));
  f.Input("v (scale)", Type(ElementType::kF16, {2, 16}));
  f.Input("v (zero)", I32({2, 2}));
  OpAttributes blocks;
  blocks.form = WeightForm::Blocks(BlockFormat::kQ4_0);
  const uint32_t x = f.Op(OpKind::kEmbed, {kIds, kTable}, F32({3, 64}), blocks);
  OpAttributes planes;
  planes.form = WeightForm::Planes(WeightForm::Offset::kZero);
  planes.transposed = true;
  const uint32_t y = f.OpOver(OpKind::kMatMul, {x, kNumbers, kScale, kZero, x}, x, planes);
  (void)y;
  OpAttributes words;
  words.form = WeightForm::Awq();
  const uint32_t z =
      f.Op(OpKind::kMatMul, {x, kWords, kWordScale, kWordZero}, F32({3, 16}), words);
  return f.Finish({z});
}

// As MakeParts, but the planes' result has a place of its own.
Function MakeApart() {
  Function function = MakeParts();
  const uint32_t addend = function.ops[kEmbed].output;
  function.values[function.ops[kPlanes].output].place = 1024;
  function.scratch_bytes = 2048;
  for (FunctionArgument& argument : function.arguments) {
    if (argument.name == kScratchArgument) argument.type = Type(ElementType::kU8, {2048});
  }
  function.ops[kAwq].inputs[0] = function.ops[kPlanes].output;
  function.ops[kPlanes].inputs.back() = addend;
  return function;
}

TEST(WeightParts, AFunctionReadsBackWithTheFormsOfItsWeights) {
  const Function function = MakeApart();
  ASSERT_TRUE(CheckFunction(function).ok()) << CheckFunction(function);
  const auto read = ReadFunctionBlob(WriteFunctionBlob(function));
  ASSERT_TRUE(read.ok()) << read.status();
  for (size_t i = 0; i < function.ops.size(); ++i) {
    EXPECT_EQ(read->ops[i].attributes.form, function.ops[i].attributes.form);
    EXPECT_EQ(read->ops[i].inputs, function.ops[i].inputs);
  }
}

// y = x [3, 64] times eight-bit words whose groups are listed.
Function MakeListed(TensorType groups) {
  FunctionMaker f("listed");
  const uint32_t x = f.Input("x", F32({3, 64}));
  const uint32_t words = f.Input("w", I32({16, 8}));
  const uint32_t scale = f.Input("w (scale)", Type(ElementType::kF16, {4, 8}));
  const uint32_t zero = f.Input("w (zero)", I32({4, 2}));
  const uint32_t group = f.Input("w (group)", std::move(groups));
  OpAttributes listed;
  listed.form = WeightForm::Gptq(/*zeros_one_too_small=*/true, 8, /*groups_listed=*/true);
  return f.Finish({f.Op(OpKind::kMatMul, {x, words, scale, zero, group}, F32({3, 8}), listed)});
}

TEST(WeightParts, TheGroupOfEachInputIsAPartOfItsOwn) {
  const Function function = MakeListed(I32({64}));
  ASSERT_TRUE(CheckFunction(function).ok()) << CheckFunction(function);
  const auto read = ReadFunctionBlob(WriteFunctionBlob(function));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ops[0].attributes.form, function.ops[0].attributes.form);
  for (const TensorType& wrong : {I32({63}), I32({64, 1}), I32({4}), F32({64})}) {
    EXPECT_THAT(std::string(CheckFunction(MakeListed(wrong)).message()), HasSubstr("in listed groups"));
  }
  Function without = function;
  without.ops[0].inputs.pop_back();
  EXPECT_THAT(std::string(CheckFunction(without).message()), HasSubstr("takes no weight of GPTQ words"));
}

TEST(WeightParts, OnlyTheAddendOfAMatMulMayLieUnderItsResult) {
  const Function function = MakeApart();
  const FunctionOp& op = function.ops[kPlanes];
  ASSERT_EQ(op.inputs.size(), 5u);
  for (size_t input = 0; input < 4; ++input) EXPECT_FALSE(OutputMayOverwrite(op, input)) << input;
  EXPECT_TRUE(OutputMayOverwrite(op, 4));
  // x is the addend and the factor at once: it is still needed.
  EXPECT_THAT(std::string(CheckFunction(MakeParts()).message()), HasSubstr("must not lie on input 0"));
}

struct Wrong {
  std::string name;
  std::function<void(Function&)> change;
  std::string message;
};

class WeightPartsRefuses : public ::testing::TestWithParam<Wrong> {};

TEST_P(WeightPartsRefuses, ByName) {
  Function function = MakeApart();
  GetParam().change(function);
  const auto read = ReadFunctionBlob(WriteFunctionBlob(function));
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr(GetParam().message));
}

const Wrong kWrongs[] = {
    {"FewerParts", [](Function& f) { f.ops[kAwq].inputs.pop_back(); }, "takes no weight of AWQ words in 2"},
    {"NoParts", [](Function& f) { f.ops[kAwq].inputs = {0}; }, "takes no weight of AWQ words in 0"},
    {"NoInputs", [](Function& f) { f.ops[kAwq].inputs = {}; }, "takes no weight of AWQ words in 0"},
    {"MoreThanAnAddend", [](Function& f) { f.ops[kPlanes].inputs.push_back(0); }, "4 inputs"},
    {"PartsInAnotherOrder",
     [](Function& f) { std::swap(f.ops[kPlanes].inputs[2], f.ops[kPlanes].inputs[3]); },
     "are no planes with zero points"},
    {"PartNotAValue", [](Function& f) { f.ops[kPlanes].inputs[2] = 999; }, "input 2 is not a value"},
    {"AnotherForm",
     [](Function& f) { f.ops[kEmbed].attributes.form = WeightForm::Blocks(BlockFormat::kQ8_0); },
     "U8[10,36] are no Q8_0 blocks"},
    {"AnotherWidth",
     [](Function& f) { f.ops[kEmbed].attributes.form = WeightForm::Blocks(BlockFormat::kIQ4_NL);
       f.arguments[kTable].type = f.values[kTable].type = Type(ElementType::kU8, {10, 18}); },
     "output is F32[3,64]"},
    {"WordsByRows", [](Function& f) { f.ops[kAwq].attributes.transposed = true; },
     "the rows of AWQ words lie the other way"},
    {"PlanesNotByRows", [](Function& f) { f.ops[kPlanes].attributes.transposed = false; },
     "lie the other way"},
    {"EmbedOfWords", [](Function& f) { f.ops[kEmbed].attributes.form = WeightForm::Awq(); },
     "takes no weight of AWQ words"},
    {"FormOfAnOperationWithoutAWeight",
     [](Function& f) {
       f.ops[kEmbed].kind = OpKind::kAdd;
     },
     "takes no weight of Q4_0 blocks"},
};

INSTANTIATE_TEST_SUITE_P(Parts, WeightPartsRefuses, ::testing::ValuesIn(kWrongs),
                         [](const auto& wrong) { return wrong.param.name; });

TEST(WeightParts, AFormThatNobodyKnowsIsRefused) {
  std::string blob = WriteFunctionBlob(MakeApart());
  // The form of the AWQ operation is the only number 0x00040000 in the blob.
  const std::string number("\x00\x00\x04\x00", 4);
  const size_t at = blob.find(number);
  ASSERT_NE(at, std::string::npos);
  blob[at + 2] = 9;
  EXPECT_THAT(std::string(ReadFunctionBlob(blob).status().message()), HasSubstr("weight form 589824"));
}

}  // namespace
}  // namespace npubank
