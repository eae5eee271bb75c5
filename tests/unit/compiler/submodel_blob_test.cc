#include "npubank/compiler_stub/blob/submodel_blob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "npubank/compiler_stub/blob/submodel_check.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/tests/unit/compiler/function_maker.h"
#include "npubank/tools/benchmarks/fake_model.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string CompiledBytes() {
  const ModelConfig config = SmallConfig(2);
  const FakeModel model(config);
  CompileOptions options;
  options.name = "prefill";
  options.chunk = 4;
  options.context = 16;
  return *Compile(*model.Over(config), options);
}

SubmodelBlob Compiled() { return *ReadSubmodelBlob(CompiledBytes()); }

TEST(SubmodelBlob, ReadsBackWhatWasWritten) {
  const std::string bytes = CompiledBytes();
  const absl::StatusOr<SubmodelBlob> blob = ReadSubmodelBlob(bytes);
  ASSERT_TRUE(blob.ok()) << blob.status();
  EXPECT_EQ(WriteSubmodelBlob(*blob), bytes);
  EXPECT_EQ(blob->name, "prefill");
}

TEST(SubmodelBlob, ClosureIsTheCallsWeightsInOrder) {
  const SubmodelBlob blob = Compiled();
  const std::vector<uint32_t> closure = blob.calls[1].Closure();
  ASSERT_EQ(closure.size(), 9u);
  EXPECT_EQ(blob.weights[closure[0]].name, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(blob.weights[closure[8]].name, "model.layers.0.mlp.down_proj.weight");
}

TEST(SubmodelBlob, RefusesOtherVersionsByNumber) {
  const std::string bytes = CompiledBytes();
  EXPECT_TRUE(ReadSubmodelBlob(OfVersion(bytes, 2)).ok());
  for (const uint32_t version : {0u, 1u, 3u}) {
    EXPECT_THAT(Message(ReadSubmodelBlob(OfVersion(bytes, version)).status()),
                HasSubstr(absl::StrCat("version ", version, ", this reader knows 2")));
  }
}

TEST(SubmodelBlob, RefusesAFunctionBlob) {
  const SubmodelBlob blob = Compiled();
  EXPECT_THAT(Message(ReadSubmodelBlob(blob.functions[0].blob).status()), HasSubstr("NPSM"));
}

TEST(SubmodelBlob, AnyByteChangedGivesABlobOrAStatus) {
  const std::string bytes = CompiledBytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0xff);
    const absl::StatusOr<SubmodelBlob> blob = ReadSubmodelBlob(changed);
    EXPECT_TRUE(!blob.ok() || CheckSubmodel(*blob).ok()) << i;
  }
}

TEST(SubmodelBlob, AnyTruncationGivesAStatus) {
  const std::string bytes = CompiledBytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    const bool ok = ReadSubmodelBlob(absl::string_view(cut.data(), cut.size())).ok();
    // What pads the last string is no part of the blob.
    EXPECT_TRUE(!ok || length + 8 > bytes.size()) << length;
  }
}

// A weight as a quantized file stores it: the first layer's up projection comes with its scale, which
// the gate's argument takes here.
SubmodelBlob WithAScale() {
  SubmodelBlob blob = Compiled();
  const std::vector<uint32_t> closure = blob.calls[1].Closure();
  blob.weights[closure[6]] = {blob.weights[closure[7]].name, WeightPart::kScale};
  return blob;
}

TEST(SubmodelBlob, AClosureHasParts) {
  const SubmodelBlob blob = WithAScale();
  const absl::StatusOr<SubmodelBlob> read = ReadSubmodelBlob(WriteSubmodelBlob(blob));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->weights, blob.weights);
  const std::vector<uint32_t> closure = read->calls[1].Closure();
  EXPECT_EQ(read->weights[closure[6]].name, "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(read->weights[closure[6]].part, WeightPart::kScale);
  EXPECT_EQ(read->weights[closure[6]].ToString(), "model.layers.0.mlp.up_proj.weight (scale)");
  EXPECT_EQ(read->weights[closure[7]].part, WeightPart::kWeight);
  EXPECT_EQ(read->weights[closure[7]].ToString(), "model.layers.0.mlp.up_proj.weight");
}

struct Wrong {
  std::string name;
  std::function<void(SubmodelBlob&)> change;
  std::string message;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

class SubmodelBlobRefuses : public ::testing::TestWithParam<Wrong> {};

TEST_P(SubmodelBlobRefuses, WithTheReason) {
  SubmodelBlob blob = Compiled();
  GetParam().change(blob);
  const absl::StatusOr<SubmodelBlob> read = ReadSubmodelBlob(WriteSubmodelBlob(blob));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(read.status()), HasSubstr(GetParam().message));
}

size_t ArgumentOf(const SubmodelBlob& blob, size_t call, const std::string& name) {
  const std::vector<FunctionArgument>& arguments =
      blob.functions[blob.calls[call].function].function.arguments;
  size_t i = 0;
  while (arguments[i].name != name) ++i;
  return i;
}

Binding& Bound(SubmodelBlob& blob, size_t call, const std::string& argument) {
  return blob.calls[call].arguments[ArgumentOf(blob, call, argument)];
}

uint32_t ValueNamed(const SubmodelBlob& blob, const std::string& name) {
  uint32_t i = 0;
  while (blob.values[i].name != name) ++i;
  return i;
}

SubmodelValue& Value(SubmodelBlob& blob, const std::string& name) {
  return blob.values[ValueNamed(blob, name)];
}

// Calls: 0 embed, 1 and 2 the layers, 3 the head.
const Wrong kWrongs[] = {
    {"NoName", [](SubmodelBlob& b) { b.name.clear(); }, "name is empty"},
    {"ChunkZero", [](SubmodelBlob& b) { b.chunk = 0; }, "a chunk of 0"},
    {"ChunkBeyondContext", [](SubmodelBlob& b) { b.chunk = b.context + 1; }, "does not fit"},
    {"VocabularyZero", [](SubmodelBlob& b) { b.vocabulary = 0; }, "vocabulary"},
    {"ArenaHuge", [](SubmodelBlob& b) { b.arena_bytes = ~uint64_t{0}; }, "2^62"},
    {"ScratchMisaligned", [](SubmodelBlob& b) { b.scratch_offset += 1; }, "scratch"},
    {"ScratchBeyondArena", [](SubmodelBlob& b) { b.scratch_bytes = b.arena_bytes + 64; },
     "scratch"},
    {"ScratchTooSmall", [](SubmodelBlob& b) { b.scratch_bytes = 64; }, "bytes of 64"},
    {"ArenaTooSmall", [](SubmodelBlob& b) { b.arena_bytes -= 64; }, "cannot lie at offset"},
    {"ValueWraps", [](SubmodelBlob& b) { Value(b, "embed").offset = ~uint64_t{63}; },
     "cannot lie at offset"},
    {"ValueMisaligned", [](SubmodelBlob& b) { Value(b, "embed").offset += 4; },
     "cannot lie at offset"},
    {"ValueOverScratch", [](SubmodelBlob& b) { Value(b, "embed").offset = b.scratch_offset; },
     "over the scratch"},
    {"PlacementUnknown",
     [](SubmodelBlob& b) { Value(b, "embed").placement = static_cast<Placement>(9); },
     "placed nowhere"},
    {"ValueTwice", [](SubmodelBlob& b) { Value(b, "span").name = "tokens"; },
     "value 'tokens' is there twice"},
    {"WeightTwice", [](SubmodelBlob& b) { b.weights[1] = b.weights[0]; }, "is there twice"},
    {"PartTwice",
     [](SubmodelBlob& b) {
       b = WithAScale();
       b.weights[b.calls[2].Closure()[6]] = b.weights[b.calls[1].Closure()[6]];
     },
     "weight 'model.layers.0.mlp.up_proj.weight (scale)' is there twice"},
    {"PartUnknown", [](SubmodelBlob& b) { b.weights[1].part = static_cast<WeightPart>(5); },
     "has a part 5, which is not known"},
    {"PartWithoutItsWeight",
     [](SubmodelBlob& b) { b.weights[b.calls[1].Closure()[6]].part = WeightPart::kMin; },
     "is bound to weight 'model.layers.0.mlp.gate_proj.weight (min)' without the weight itself"},
    {"PartWithoutItsWeightInThatCall",
     [](SubmodelBlob& b) {
       const std::vector<uint32_t> first = b.calls[1].Closure();
       b.weights[first[6]] = {b.weights[b.calls[2].Closure()[7]].name, WeightPart::kZero};
     },
     "is bound to weight 'model.layers.1.mlp.up_proj.weight (zero)' without the weight itself"},
    {"CallTwice", [](SubmodelBlob& b) { b.calls[1].name = b.calls[2].name; },
     "call 'block.1' is there twice"},
    {"FunctionTwice", [](SubmodelBlob& b) { b.functions[1].name = b.functions[0].name; },
     "function 'embed' is there twice"},
    {"FunctionNotThere", [](SubmodelBlob& b) { b.calls[1].function = 3; },
     "calls a function that is not there"},
    {"FunctionDamaged", [](SubmodelBlob& b) { b.functions[1].blob.resize(40); },
     "function 1: corrupt function blob"},
    {"ArgumentUnbound", [](SubmodelBlob& b) { b.calls[1].arguments.pop_back(); },
     "binds 14 of 15 arguments"},
    {"ValueNotThere", [](SubmodelBlob& b) { Bound(b, 1, "input").index = 1000; }, "not there"},
    {"WeightNotThere", [](SubmodelBlob& b) { b.calls[0].arguments[1].index = 1000; }, "not there"},
    {"BindingUnknown",
     [](SubmodelBlob& b) { Bound(b, 1, "input").kind = static_cast<BindingKind>(7); }, "not there"},
    {"AnotherType", [](SubmodelBlob& b) { Bound(b, 1, "input").index = ValueNamed(b, "span"); },
     "is F32[4,24], but value 'span' is I32[2]"},
    {"ScratchElsewhere", [](SubmodelBlob& b) { Bound(b, 1, "input").kind = BindingKind::kScratch; },
     "scratch"},
    {"ScratchNotScratch",
     [](SubmodelBlob& b) { Bound(b, 1, "scratch").kind = BindingKind::kValue; }, "scratch"},
    {"WeightOfTwoTypes",
     [](SubmodelBlob& b) {
       Bound(b, 1, "model.layers.mlp.up_proj.weight") =
           Bound(b, 1, "model.layers.mlp.down_proj.weight");
     },
     "elsewhere"},
    {"WeightUnused", [](SubmodelBlob& b) { b.weights.push_back({"more"}); },
     "weight 'more' is bound to no call"},
    {"WeightWritten",
     [](SubmodelBlob& b) {
       Bound(b, 1, "layers.mlp_add") = {BindingKind::kWeight, 0};
     },
     "is an output bound to a weight"},
    {"CacheNotAState",
     [](SubmodelBlob& b) { Value(b, "layers.0.key_cache").placement = Placement::kInput; },
     "is written to and not bound to a state"},
    {"CacheTwice",
     [](SubmodelBlob& b) { Bound(b, 1, "layers.key_cache") = Bound(b, 1, "layers.value_cache"); },
     "'layers.0.value_cache' is written to and bound twice"},
    {"InputWritten", [](SubmodelBlob& b) { Value(b, "logits").placement = Placement::kInput; },
     "which is an input or a state"},
    {"UsedBeforeMade", [](SubmodelBlob& b) { std::swap(b.calls[1], b.calls[2]); },
     "is used before it is made"},
    {"NeverMade",
     [](SubmodelBlob& b) {
       SubmodelValue more = Value(b, "embed");
       more.name = "more";
       b.values.push_back(more);
     },
     "value 'more' is never made"},
    {"MadeTwice",
     [](SubmodelBlob& b) { Bound(b, 2, "layers.mlp_add") = Bound(b, 1, "layers.mlp_add"); },
     "'layers.0.mlp_add' is made twice"},
    {"OverElsewhere",
     [](SubmodelBlob& b) {
       b.arena_bytes += 4096;
       Value(b, "layers.0.mlp_add").offset = b.arena_bytes - 4096;
     },
     "does not lie on a value of the arena that dies here"},
    {"OverAValueUsedLater",
     [](SubmodelBlob& b) { Bound(b, 3, "layers.1.mlp_add") = Bound(b, 2, "input"); },
     "does not lie on a value of the arena that dies here"},
};

INSTANTIATE_TEST_SUITE_P(Compiled, SubmodelBlobRefuses, ::testing::ValuesIn(kWrongs),
                         [](const auto& wrong) { return wrong.param.name; });

}  // namespace
}  // namespace npubank
