#include "npubank/compiler_stub/views/plan_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "npubank/compiler_stub/compile.h"
#include "npubank/compiler_stub/planner/validator.h"
#include "npubank/tools/benchmarks/fake_model.h"

namespace npubank {
namespace {

SubmodelBlob CompileModel(const ModelConfig& config, int64_t chunk, AttentionForm attention,
                          bool reuse = true) {
  const FakeModel model(config);
  CompileOptions options;
  options.name = "test";
  options.chunk = chunk;
  options.context = std::min<int64_t>(1024, config.context_length);
  options.attention = attention;
  options.reuse = reuse;
  return *ReadSubmodelBlob(*Compile(*model.Over(config), options));
}

TEST(PlanView, ShowsAPlanThatTheValidatorAccepts) {
  for (bool reuse : {true, false}) {
    for (AttentionForm attention : {AttentionForm::kWhole, AttentionForm::kPerHead}) {
      const SubmodelBlob blob = CompileModel(SmallConfig(3), 8, attention, reuse);
      const PlanView arena = ViewPlan(blob);
      EXPECT_TRUE(Validate(arena.problem, arena.offsets).ok());
      EXPECT_EQ(arena.bytes, blob.arena_bytes);
      for (const SubmodelFunction& function : blob.functions) {
        const PlanView scratch = ViewPlan(function.function);
        EXPECT_TRUE(Validate(scratch.problem, scratch.offsets).ok());
        EXPECT_EQ(scratch.bytes, function.function.scratch_bytes);
      }
    }
  }
}

TEST(PlanView, SeesAWrongPlan) {
  SubmodelBlob blob = CompileModel(SmallConfig(2), 8, AttentionForm::kWhole, false);
  Function function = blob.functions[1].function;
  const auto value = [&](const std::string& name) -> FunctionValue& {
    return *std::find_if(function.values.begin(), function.values.end(),
                         [&](const FunctionValue& v) { return v.name == name; });
  };
  EXPECT_TRUE(Validate(ViewPlan(function).problem, ViewPlan(function).offsets).ok());
  value("layers.q").place = value("layers.attention_norm").place + 64;
  const PlanView view = ViewPlan(function);
  EXPECT_FALSE(Validate(view.problem, view.offsets).ok());
}

// The hidden state is one buffer from the embedding to the head.
TEST(PlanView, LayersWorkOnTheHiddenStateWhereItIs) {
  const SubmodelBlob blob = CompileModel(SmallConfig(4), 8, AttentionForm::kWhole);
  const PlanView view = ViewPlan(blob);
  const Buffer& hidden = view.problem.buffers.front();
  EXPECT_EQ(hidden.lower, 0);
  EXPECT_EQ(hidden.values.size(), 1u + 2 * 4);
  EXPECT_EQ(hidden.kind, "embed");
}

struct Case {
  std::string name;
  ModelConfig config;
  int64_t chunk;
  AttentionForm attention;
  int64_t most_mib;  // rounded up; worked out by hand from the sizes at the busiest operation
};

TEST(PlanView, RealSizesReachTheLowerBound) {
  const Case cases[] = {
      // h, q and the scores of 32 heads: 8 + 8 + 128.
      {"1B prefill", Llama1BConfig(), 1024, AttentionForm::kWhole, 144},
      // h, the norm, gate and up: 8 + 8 + 32 + 32.
      {"1B prefill per head", Llama1BConfig(), 1024, AttentionForm::kPerHead, 80},
      {"1B kvcache", Llama1BConfig(), 1, AttentionForm::kWhole, 1},
      {"7B prefill", Llama7BConfig(), 1024, AttentionForm::kWhole, 160},
      {"7B prefill per head", Llama7BConfig(), 1024, AttentionForm::kPerHead, 118},
      {"7B kvcache", Llama7BConfig(), 1, AttentionForm::kWhole, 1},
  };
  for (const Case& c : cases) {
    const auto start = std::chrono::steady_clock::now();
    const SubmodelBlob blob = CompileModel(c.config, c.chunk, c.attention);
    const auto time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start);
    const PlanView view = ViewPlan(blob);
    EXPECT_EQ(view.bytes, view.lower_bound) << c.name;
    EXPECT_LE(view.bytes, c.most_mib << 20) << c.name;
    constexpr double kMiB = 1 << 20;
    std::printf("%-20s sum %9.3f MiB, bound %8.3f, plan %8.3f, ratio %.3f, %3.0f ms\n",
                c.name.c_str(), static_cast<double>(view.sum_of_values) / kMiB,
                static_cast<double>(view.lower_bound) / kMiB,
                static_cast<double>(view.bytes) / kMiB,
                static_cast<double>(view.bytes) / static_cast<double>(view.lower_bound),
                time.count() * 1e3);
  }
}

}  // namespace
}  // namespace npubank
