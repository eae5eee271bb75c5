// How fast the software NPU multiplies: GB/s of weights for one row (decoding), GFLOP/s for many
// (prefill).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "npubank/runtime/software_npu/kernels/matmul.h"
#include "npubank/tests/unit/software_npu/plain_weight.h"

namespace npubank::software_npu {
namespace {

// As many weights as exceed the caches, used one after the other.
constexpr int64_t kWeights = 24;

void RunMatMul(benchmark::State& state, ElementType element, bool transposed) {
  const int64_t rows = state.range(0);
  const int64_t depth = state.range(1);
  const int64_t columns = state.range(2);
  const int64_t bytes = depth * columns * BitWidth(element) / 8;
  std::vector<float> x(static_cast<size_t>(rows * depth), 0.5f);
  std::vector<float> out(static_cast<size_t>(rows * columns));
  std::vector<uint8_t> weights(static_cast<size_t>(kWeights * bytes), 0);
  int64_t next = 0;
  for (auto _ : state) {
    const uint8_t* const weight = weights.data() + (next++ % kWeights) * bytes;
    MatMul({x.data(), rows, depth, weight, element, transposed, columns, nullptr, out.data()});
    benchmark::DoNotOptimize(out.data());
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["weights GB/s"] =
      benchmark::Counter(runs * static_cast<double>(bytes) * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] = benchmark::Counter(
      runs * 2e-9 * static_cast<double>(rows * depth * columns), benchmark::Counter::kIsRate);
}

// The same over weights in parts: GB/s are those of the stored bytes; "of F16" shows how long it takes beside
// as many numbers in F16, in GB/s of those.
void RunParts(benchmark::State& state, WeightForm form, ElementType element) {
  const int64_t rows = state.range(0);
  const int64_t depth = state.range(1);
  const int64_t columns = state.range(2);
  const bool by_rows = form.by_rows();
  const PlainWeight one =
      RandomWeight(form, element, by_rows ? columns : depth, by_rows ? depth : columns, depth / 128, 2);
  std::vector<PlainWeight> weights(static_cast<size_t>(kWeights), one);
  uint64_t bytes = 0;
  for (const std::vector<uint8_t>& part : one.parts) bytes += part.size();
  std::vector<float> x(static_cast<size_t>(rows * depth), 0.5f);
  std::vector<float> out(static_cast<size_t>(rows * columns));
  size_t next = 0;
  for (auto _ : state) {
    const WeightOperand operand = weights[next++ % weights.size()].Operand();
    MatMul({.x = x.data(), .rows = rows, .depth = depth, .transposed = by_rows, .columns = columns,
            .out = out.data(), .parts = &operand});
    benchmark::DoNotOptimize(out.data());
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["weights GB/s"] = benchmark::Counter(runs * 1e-9 * static_cast<double>(bytes),
                                                      benchmark::Counter::kIsRate);
  state.counters["of F16 GB/s"] = benchmark::Counter(
      runs * 2e-9 * static_cast<double>(depth * columns), benchmark::Counter::kIsRate);
}

void Shapes(benchmark::internal::Benchmark* b) {
  for (int64_t rows : {1, 4, 64, 128}) b->Args({rows, 768, 3072});
  b->Args({1, 4096, 4096})->Args({64, 2048, 5632})->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(RunMatMul, BF16_columns_depth, ElementType::kBF16, true)->Apply(Shapes);
BENCHMARK_CAPTURE(RunMatMul, BF16_depth_columns, ElementType::kBF16, false)->Apply(Shapes);
BENCHMARK_CAPTURE(RunMatMul, F16_columns_depth, ElementType::kF16, true)->Apply(Shapes);
BENCHMARK_CAPTURE(RunMatMul, F16_depth_columns, ElementType::kF16, false)->Apply(Shapes);
BENCHMARK_CAPTURE(RunMatMul, F32_columns_depth, ElementType::kF32, true)->Apply(Shapes);
BENCHMARK_CAPTURE(RunMatMul, F32_depth_columns, ElementType::kF32, false)->Apply(Shapes);

BENCHMARK_CAPTURE(RunParts, Q4_0, WeightForm::Blocks(kernels::BlockFormat::kQ4_0), ElementType::kU8)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(RunParts, Q4_K, WeightForm::Blocks(kernels::BlockFormat::kQ4_K), ElementType::kU8)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(RunParts, Q6_K, WeightForm::Blocks(kernels::BlockFormat::kQ6_K), ElementType::kU8)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(RunParts, U4_planes, WeightForm::Planes(WeightForm::Offset::kZero), ElementType::kU4)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(RunParts, I4_planes, WeightForm::Planes(WeightForm::Offset::kNone), ElementType::kI4)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(RunParts, GPTQ, WeightForm::Gptq(true), ElementType::kI32)->Apply(Shapes);
BENCHMARK_CAPTURE(RunParts, GPTQ_act_order, WeightForm::Gptq(true, 4, true), ElementType::kI32)->Apply(Shapes);
BENCHMARK_CAPTURE(RunParts, GPTQ_8bit, WeightForm::Gptq(true, 8), ElementType::kI32)->Apply(Shapes);
BENCHMARK_CAPTURE(RunParts, AWQ, WeightForm::Awq(), ElementType::kI32)->Apply(Shapes);

}  // namespace
}  // namespace npubank::software_npu

BENCHMARK_MAIN();
