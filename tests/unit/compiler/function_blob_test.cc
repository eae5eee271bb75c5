#include "npubank/compiler_stub/blob/function_blob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "npubank/compiler_stub/blob/function_check.h"
#include "npubank/tests/unit/compiler/function_maker.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

void ExpectSame(const Function& a, const Function& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.scratch_bytes, b.scratch_bytes);
  ASSERT_EQ(a.arguments.size(), b.arguments.size());
  for (size_t i = 0; i < a.arguments.size(); ++i) {
    EXPECT_EQ(a.arguments[i].name, b.arguments[i].name);
    EXPECT_EQ(a.arguments[i].kind, b.arguments[i].kind);
    EXPECT_EQ(a.arguments[i].type, b.arguments[i].type);
    EXPECT_EQ(a.arguments[i].over, b.arguments[i].over);
  }
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    EXPECT_EQ(a.values[i].name, b.values[i].name);
    EXPECT_EQ(a.values[i].type, b.values[i].type);
    EXPECT_EQ(a.values[i].storage, b.values[i].storage);
    EXPECT_EQ(a.values[i].place, b.values[i].place);
  }
  ASSERT_EQ(a.ops.size(), b.ops.size());
  for (size_t i = 0; i < a.ops.size(); ++i) {
    EXPECT_EQ(a.ops[i].kind, b.ops[i].kind);
    EXPECT_EQ(a.ops[i].name, b.ops[i].name);
    EXPECT_EQ(a.ops[i].inputs, b.ops[i].inputs);
    EXPECT_EQ(a.ops[i].output, b.ops[i].output);
    const OpAttributes& x = a.ops[i].attributes;
    const OpAttributes& y = b.ops[i].attributes;
    EXPECT_EQ(x.epsilon, y.epsilon);
    EXPECT_EQ(x.frequencies, y.frequencies);
    EXPECT_EQ(x.interleaved, y.interleaved);
    EXPECT_EQ(x.window, y.window);
    EXPECT_EQ(x.head_dim, y.head_dim);
    EXPECT_EQ(x.heads, y.heads);
    EXPECT_EQ(x.first_head, y.first_head);
    EXPECT_EQ(x.heads_per_kv_head, y.heads_per_kv_head);
    EXPECT_EQ(x.scale, y.scale);
    EXPECT_EQ(x.transposed, y.transposed);
  }
}

TEST(FunctionBlob, ReadsBackWhatWasWritten) {
  for (const Function& function : {MakeLayer(), MakeEnds()}) {
    const absl::StatusOr<Function> read = ReadFunctionBlob(WriteFunctionBlob(function));
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSame(*read, function);
  }
}

TEST(FunctionBlob, SameFunctionGivesSameBytes) {
  EXPECT_EQ(WriteFunctionBlob(MakeLayer()), WriteFunctionBlob(MakeLayer()));
}

TEST(FunctionBlob, ReadsFromAnyAddress) {
  const std::string blob = WriteFunctionBlob(MakeLayer());
  for (size_t shift = 0; shift < 8; ++shift) {
    const std::string moved = std::string(shift, 'x') + blob;
    const absl::string_view bytes = absl::string_view(moved).substr(shift);
    EXPECT_TRUE(ReadFunctionBlob(bytes).ok()) << shift;
  }
}

TEST(FunctionBlob, RefusesOtherVersionsByNumber) {
  const std::string blob = WriteFunctionBlob(MakeLayer());
  EXPECT_TRUE(ReadFunctionBlob(OfVersion(blob, 3)).ok());
  for (const uint32_t version : {0u, 1u, 2u, 4u, 0xFFFFFFFFu}) {
    const absl::Status status = ReadFunctionBlob(OfVersion(blob, version)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr(absl::StrCat("version ", version, ", this reader knows 3")));
  }
}

TEST(FunctionBlob, RefusesAnotherKindOfFile) {
  EXPECT_THAT(Message(ReadFunctionBlob("").status()), HasSubstr("it has 0 bytes"));
  EXPECT_THAT(Message(ReadFunctionBlob(std::string(100, 'x')).status()), HasSubstr("identifier"));
  std::string blob = WriteFunctionBlob(MakeLayer());
  blob[4] = 'X';
  EXPECT_THAT(Message(ReadFunctionBlob(blob).status()), HasSubstr("NPBF"));
}

TEST(FunctionBlob, AnyByteChangedGivesAFunctionOrAStatus) {
  for (const Function& function : {MakeLayer(), MakeEnds()}) {
    const std::string blob = WriteFunctionBlob(function);
    for (size_t i = 0; i < blob.size(); ++i) {
      for (int bits : {0x01, 0x80, 0xff}) {
        std::string changed = blob;
        changed[i] = static_cast<char>(changed[i] ^ bits);
        const absl::StatusOr<Function> read = ReadFunctionBlob(changed);
        EXPECT_TRUE(!read.ok() || CheckFunction(*read).ok());
      }
    }
  }
}

TEST(FunctionBlob, AnyTruncationGivesAStatus) {
  const std::string blob = WriteFunctionBlob(MakeLayer());
  for (size_t length = 0; length < blob.size(); ++length) {
    // A copy of its own, so that a sanitizer sees a read behind the end.
    const std::vector<char> bytes(blob.begin(), blob.begin() + static_cast<ptrdiff_t>(length));
    const bool ok = ReadFunctionBlob(absl::string_view(bytes.data(), bytes.size())).ok();
    // What pads the last string is no part of the function.
    EXPECT_TRUE(!ok || length + 8 > blob.size()) << length;
  }
}

// One thing wrong with MakeLayer, and what the message must name.
struct Wrong {
  std::string name;
  std::function<void(Function&)> change;
  std::string message;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

class FunctionBlobRefuses : public ::testing::TestWithParam<Wrong> {};

TEST_P(FunctionBlobRefuses, WithTheReason) {
  Function function = MakeLayer();
  GetParam().change(function);
  const absl::StatusOr<Function> read = ReadFunctionBlob(WriteFunctionBlob(function));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(read.status()), HasSubstr(GetParam().message));
}

// Operations and values of MakeLayer by what they are.
enum LayerOp {
  kNorm,
  kK,
  kKRope,
  kKWrite,
  kVWrite,
  kQ,
  kScores,
  kSoftmaxOp,
  kMix,
  kO,
  kSilu,
  kSum
};

FunctionValue& OutputOf(Function& f, LayerOp op) { return f.values[f.ops[op].output]; }

const Wrong kWrongs[] = {
    {"NoName", [](Function& f) { f.name.clear(); }, "name is empty"},
    {"NameWithControls", [](Function& f) { f.arguments[0].name = "a\nb"; }, "control characters"},
    {"ArgumentTwice", [](Function& f) { f.arguments[1].name = "x"; },
     "argument 'x' is there twice"},
    {"InputAfterOutput", [](Function& f) { f.arguments[0].kind = ArgumentKind::kOutput; },
     "'span' is an input after an output"},
    {"ArgumentKindUnknown",
     [](Function& f) { f.arguments.back().kind = static_cast<ArgumentKind>(7); },
     "neither input nor output"},
    {"ArgumentEmpty",
     [](Function& f) {
       f.arguments[0].type = F32({3, 0});
     },
     "1..2^32-1"},
    {"ArgumentOfSixDimensions",
     [](Function& f) {
       f.arguments[0].type = F32({1, 1, 1, 1, 3, 8});
     },
     "more than 5 dimensions"},
    {"ScratchWithoutBytes", [](Function& f) { f.scratch_bytes = 0; }, "scratch_bytes"},
    {"ScratchOfAnotherSize", [](Function& f) { f.scratch_bytes += 64; }, "not the last input"},
    {"ValueInNoArgument", [](Function& f) { f.values[0].place = 99; }, "not there"},
    {"ValueInScratchArgument", [](Function& f) { f.values[0].place = 8; }, "place in scratch"},
    {"ValueOfAnotherType",
     [](Function& f) {
       f.values[0].type = F32({8, 3});
     },
     "F32[8,3] in an argument of F32[3,8]"},
    {"StorageUnknown", [](Function& f) { f.values[0].storage = static_cast<Storage>(9); },
     "unknown storage"},
    {"Misaligned", [](Function& f) { OutputOf(f, kNorm).place = 32; }, "not a multiple of 64"},
    {"BeyondScratch", [](Function& f) { OutputOf(f, kNorm).place = f.scratch_bytes; },
     "reach beyond"},
    {"FarBeyondScratch", [](Function& f) { OutputOf(f, kNorm).place = ~uint64_t{63}; },
     "reach beyond"},
    {"OperationUnknown", [](Function& f) { f.ops[kNorm].kind = static_cast<OpKind>(200); },
     "operation 'op0': operation kind 200"},
    {"OperationNone", [](Function& f) { f.ops[kNorm].kind = static_cast<OpKind>(0); },
     "operation kind 0"},
    {"TooFewInputs", [](Function& f) { f.ops[kNorm].inputs.pop_back(); }, "RmsNorm takes 2 to 2"},
    {"TooManyInputs", [](Function& f) { f.ops[kNorm].inputs.resize(40); }, "40 inputs"},
    {"InputNotAValue", [](Function& f) { f.ops[kNorm].inputs[1] = 1000; },
     "input 1 is not a value"},
    {"OutputNotAValue", [](Function& f) { f.ops[kNorm].output = 1000; }, "output is not a value"},
    {"WeightOfAnotherShape", [](Function& f) { f.ops[kNorm].inputs[1] = 5; },
     "input 1 is F16[8,8], not F32, F16 or BF16 [W]"},
    {"NormOfBrokenPieces",
     [](Function& f) {
       f.arguments[4].type = F32({3});
       f.values[4].type = F32({3});
     },
     "8 columns are not whole pieces of 3"},
    {"WindowBelowZero", [](Function& f) { f.ops[kSoftmaxOp].attributes.window = -1; }, "window"},
    {"ActivationNotF32", [](Function& f) { f.ops[kQ].inputs[0] = 5; }, "not F32 [S,K]"},
    {"WeightNotTransposed", [](Function& f) { f.ops[kK].attributes.transposed = true; },
     "operation 'op1': input 1 is BF16[8,4], not F32, F16 or BF16 [8,8]"},
    {"SpanNotTwo", [](Function& f) { f.ops[kKRope].inputs[1] = 4; }, "not I32 [2]"},
    {"EpsilonNotANumber", [](Function& f) { f.ops[kNorm].attributes.epsilon = std::nanf(""); },
     "epsilon"},
    {"EpsilonNegative", [](Function& f) { f.ops[kNorm].attributes.epsilon = -1; }, "epsilon"},
    {"RopeOddHead", [](Function& f) { f.ops[kKRope].attributes.head_dim = 3; }, "head_dim 3"},
    {"RopeHeadZero", [](Function& f) { f.ops[kKRope].attributes.head_dim = 0; }, "head_dim 0"},
    {"RopeNotWholeHeads",
     [](Function& f) {
       f.ops[kKRope].attributes.head_dim = 8;
       f.ops[kKRope].attributes.frequencies.resize(4);
     },
     "4 columns are not whole heads of 8"},
    {"RopeFrequencies", [](Function& f) { f.ops[kKRope].attributes.frequencies.pop_back(); },
     "1 frequencies for head_dim 4"},
    {"RopeInfinite",
     [](Function& f) {
       f.ops[kKRope].attributes.frequencies[0] = std::numeric_limits<float>::infinity();
     },
     "not finite"},
    {"HeadsBeyondQuery", [](Function& f) { f.ops[kScores].attributes.first_head = 1; },
     "heads 1+2 do not fit 2 heads"},
    {"FirstHeadHuge", [](Function& f) { f.ops[kScores].attributes.first_head = 0xffffffff; },
     "do not fit"},
    {"HeadsNotTheScores", [](Function& f) { f.ops[kMix].attributes.heads = 1; },
     "do not fit 2 heads and scores of 2"},
    {"HeadsBeyondCache", [](Function& f) { f.ops[kScores].attributes.heads_per_kv_head = 1; },
     "beyond 1 heads of the cache"},
    {"HeadsPerKvHeadZero", [](Function& f) { f.ops[kScores].attributes.heads_per_kv_head = 0; },
     "heads_per_kv_head 0"},
    {"HeadDimZero", [](Function& f) { f.ops[kMix].attributes.head_dim = 0; }, "head_dim 0"},
    {"ScaleInfinite",
     [](Function& f) { f.ops[kScores].attributes.scale = std::numeric_limits<float>::infinity(); },
     "scale is not finite"},
    {"MadeTwice", [](Function& f) { f.ops[kQ].output = f.ops[kNorm].output; }, "made twice"},
    {"UsedBeforeMade", [](Function& f) { std::swap(f.ops[kNorm], f.ops[kK]); },
     "operation 'op1': value 'op0' is used before it is made"},
    {"NeverMade", [](Function& f) { f.ops.erase(f.ops.begin() + kO); }, "neither made"},
    {"TwoValuesInOneInput", [](Function& f) { f.values[3].place = 2; },
     "argument that another value has"},
    {"WrittenIntoAnInput", [](Function& f) { OutputOf(f, kSum).place = 0; },
     "must not be written into an input argument"},
    {"OutputNeverWritten",
     [](Function& f) {
       f.arguments.push_back({"more", ArgumentKind::kOutput, F32({2}), -1});
     },
     "'more' is an output that nothing writes"},
    {"CacheOfItsOwn", [](Function& f) { f.ops[kKWrite].inputs[1] = 3; },
     "output must lie on input 1 'values'"},
    {"OldCacheUsedLater", [](Function& f) { f.ops[kScores].inputs[1] = 2; },
     "must not lie on input 1 'keys'"},
    {"OverAnInputThatCannotBe",
     [](Function& f) { OutputOf(f, kQ).place = OutputOf(f, kNorm).place; },
     "must not lie on input 0 'op0'"},
    {"OverAnInputUsedLater", [](Function& f) { OutputOf(f, kSilu).place = OutputOf(f, kO).place; },
     "must not lie on input 0 'op9'"},
    {"OverALiveValue", [](Function& f) { OutputOf(f, kMix).place = OutputOf(f, kNorm).place; },
     "'op8' is written over value 'op0'"},
    {"PartlyOverALiveValue",
     [](Function& f) { OutputOf(f, kScores).place = OutputOf(f, kNorm).place + 64; },
     "is written over value"},
    {"OverNoArgument", [](Function& f) { f.arguments.back().over = 1000; }, "cannot lie on"},
    {"OverBelowZero", [](Function& f) { f.arguments.back().over = -2; }, "cannot lie on"},
    {"OverScratch", [](Function& f) { f.arguments.back().over = 8; }, "cannot lie on"},
    {"OverAnotherType", [](Function& f) { f.arguments.back().over = 2; }, "cannot lie on"},
    {"InputOver", [](Function& f) { f.arguments[7].over = 6; }, "cannot lie on"},
};

INSTANTIATE_TEST_SUITE_P(Layer, FunctionBlobRefuses, ::testing::ValuesIn(kWrongs),
                         [](const auto& wrong) { return wrong.param.name; });

TEST(FunctionCheck, AnOutputMayLieOnAnInputThatIsReadNoMore) {
  Function function = MakeLayer();
  function.arguments.back().over = 0;  // x is read last by the MatMul with an addend
  EXPECT_TRUE(CheckFunction(function).ok());
  std::swap(function.ops[kSum].inputs[0], function.ops[kSum].inputs[1]);
  function.ops[kSum].inputs[0] = 0;  // now by the operation that writes the output: an Add may
  EXPECT_TRUE(CheckFunction(function).ok());
  function.ops[kSilu].inputs[1] = 0;
  function.values[function.ops[kO].output].storage = Storage::kArgument;
  function.values[function.ops[kO].output].place = function.arguments.size() - 1;
  EXPECT_THAT(Message(CheckFunction(function)), HasSubstr("must not lie on input 2 'x'"));
}

TEST(FunctionCheck, HeadsMayBeMixedOneAfterTheOther) {
  FunctionMaker f("heads");
  const uint32_t span = f.Input("span", I32({2}));
  const uint32_t p = f.Input("p", F32({1, 3, 5}));
  const uint32_t values = f.Input("values", F32({5, 4}));
  OpAttributes attributes;
  attributes.head_dim = 4;
  attributes.heads = 1;
  attributes.heads_per_kv_head = 2;
  const uint32_t first = f.Op(OpKind::kAttentionMix, {p, values, span}, F32({3, 8}), attributes);
  attributes.first_head = 1;
  const uint32_t both =
      f.OpOver(OpKind::kAttentionMix, {p, values, span, first}, first, attributes);
  Function function = f.Finish({both});
  EXPECT_TRUE(CheckFunction(function).ok()) << CheckFunction(function);
  // The second must lie on the first.
  FunctionMaker apart("apart");
  apart.Input("span", I32({2}));
  apart.Input("p", F32({1, 3, 5}));
  apart.Input("values", F32({5, 4}));
  attributes.first_head = 0;
  const uint32_t a = apart.Op(OpKind::kAttentionMix, {p, values, span}, F32({3, 8}), attributes);
  const uint32_t b = apart.Op(OpKind::kAttentionMix, {p, values, span, a}, F32({3, 8}), attributes);
  EXPECT_THAT(Message(CheckFunction(apart.Finish({b}))), HasSubstr("must lie on input 3"));
}

}  // namespace
}  // namespace npubank
