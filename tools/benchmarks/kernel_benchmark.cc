// How fast the kernels are beside memcpy: bytes per second read and written, and the share of the
// speed at which memcpy moves as many bytes in and out, on one thread and on two.
//
//   kernel_benchmark                                     all of them
//   kernel_benchmark --benchmark_filter='Q4_K.*/2'       Q4_K on two threads
//
// Outputs are 256 MiB, beyond most caches, and written past them where a kernel can, as the evaluator
// does with large tensors. A kernel and its memcpy take turns, and each counts with its median, so
// that whatever else the machine does disturbs both alike.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/lazy_tensor/kernels/dequantize.h"
#include "npubank/lazy_tensor/kernels/packing.h"
#include "npubank/lazy_tensor/kernels/permute.h"
#include "npubank/tools/terminal/standard_streams.h"

namespace npubank::kernels {
namespace {

constexpr size_t kOutputBytes = size_t{256} << 20;
constexpr size_t kHalves = kOutputBytes / 2;
constexpr int kRounds = 9;

// Part `part` of `parts` of the work, from `in` into `out`.
using Work = std::function<void(const uint8_t* in, uint8_t* out, size_t part, size_t parts)>;

struct Case {
  const char* name;
  size_t in_bytes;
  Work work;
};

double Seconds(const Case& work, const uint8_t* in, uint8_t* out, size_t parts) {
  const auto start = std::chrono::steady_clock::now();
  npubank::ThreadWorkers workers(static_cast<int>(parts));
  const absl::Status done = workers.ForEach(static_cast<int64_t>(parts), [&](int64_t part) {
    work.work(in, out, static_cast<size_t>(part), parts);
    return absl::OkStatus();
  });
  (void)done;  // no part fails
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct FreeBytes {
  void operator()(uint8_t* bytes) const { std::free(bytes); }
};

// On a page, as device memory is; bits that make no infinite scale.
std::unique_ptr<uint8_t[], FreeBytes> TestBytes(size_t size) {
  constexpr size_t kPage = 4096;
  const size_t rounded = (size / kPage + 1) * kPage;
  std::unique_ptr<uint8_t[], FreeBytes> bytes(
      static_cast<uint8_t*>(std::aligned_alloc(kPage, rounded)));
  uint64_t state = 1;
  for (size_t i = 0; i < rounded; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = static_cast<uint8_t>(state >> 33) & 0xBF;
  }
  return bytes;
}

// `count` floats on a page, all of one value.
std::shared_ptr<const float[]> Floats(size_t count, float value) {
  constexpr size_t kPage = 4096;
  const size_t rounded = (count * sizeof(float) / kPage + 1) * kPage;
  float* floats = static_cast<float*>(std::aligned_alloc(kPage, rounded));
  std::fill_n(floats, count, value);
  return std::shared_ptr<const float[]>(floats,
                                        [](const float* p) { std::free(const_cast<float*>(p)); });
}

void BesideMemcpy(benchmark::State& state, const Case& kernel) {
  const size_t threads = static_cast<size_t>(state.range(0));
  const size_t moved = (kernel.in_bytes + kOutputBytes) / 2;  // in, and as much out
  const auto in = TestBytes(std::max(kernel.in_bytes, moved));
  const auto out = TestBytes(std::max(kOutputBytes, moved));
  const Case copy = {"memcpy", moved,
                     [moved](const uint8_t* from, uint8_t* to, size_t part, size_t parts) {
                       const size_t first = moved * part / parts;
                       std::memcpy(to + first, from + first, moved * (part + 1) / parts - first);
                     }};
  std::vector<double> kernel_seconds;
  std::vector<double> copy_seconds;
  for (auto _ : state) {
    kernel_seconds.push_back(Seconds(kernel, in.get(), out.get(), threads));
    copy_seconds.push_back(Seconds(copy, in.get(), out.get(), threads));
    state.SetIterationTime(kernel_seconds.back());
    benchmark::DoNotOptimize(out.get());
  }
  const double seconds = Median(kernel_seconds);
  state.counters["GB/s"] = static_cast<double>(2 * moved) / seconds * 1e-9;
  state.counters["of_memcpy"] = Median(copy_seconds) / seconds;
}

Case ConvertCase(const char* name, ElementType from, size_t from_bytes, ElementType to,
                 size_t to_bytes) {
  const size_t count = kOutputBytes / to_bytes;
  return {name, count * from_bytes,
          [=](const uint8_t* in, uint8_t* out, size_t part, size_t parts) {
            const size_t each = count / parts;
            Convert(from, in + part * each * from_bytes, to, out + part * each * to_bytes, each,
                    /*stream=*/true);
          }};
}

Case BlocksCase(const char* name, BlockFormat format) {
  const size_t blocks = kHalves / BlockLength(format);
  return {name, blocks * BlockBytes(format),
          [=](const uint8_t* in, uint8_t* out, size_t part, size_t parts) {
            const size_t each = blocks / parts;
            DequantizeBlocks(format, in + part * each * BlockBytes(format), ElementType::kF16,
                             out + part * each * BlockLength(format) * 2, each, /*stream=*/true);
          }};
}

constexpr size_t kColumns = 4096;
constexpr size_t kRows = kHalves / kColumns;
constexpr size_t kGroup = 128;

// Weights of [rows, columns] with a scale and a zero point for every 128 of a row.
Case GroupedCase(const char* name, ElementType type, size_t bits, ElementType to) {
  const auto scales = Floats(kHalves / kGroup, 0.01f);
  const auto zeros = Floats(kHalves / kGroup, 8.0f);
  return {name, kHalves * bits / 8 + kHalves / kGroup * 8,
          [=](const uint8_t* in, uint8_t* out, size_t part, size_t parts) {
            const size_t each = kHalves / parts;
            const QuantizedRun run = {.type = type,
                                      .weights = in + part * each * bits / 8,
                                      .scales = scales.get() + part * each / kGroup,
                                      .zeros = zeros.get() + part * each / kGroup,
                                      .group = kGroup,
                                      .stream = true};
            Dequantize(run, to, out + part * each * 2, each);
          }};
}

// AWQ words of [rows, columns / 8], a scale and a zero point for 128 rows of each column.
Case AwqCase(const char* name) {
  const auto scales = Floats(kColumns * kRows / kGroup, 0.01f);
  const auto zeros = Floats(kColumns * kRows / kGroup, 8.0f);
  return {name, kHalves / 2 + kHalves / kGroup * 8,
          [=](const uint8_t* in, uint8_t* out, size_t part, size_t parts) {
            uint8_t ordered[kColumns / 2];
            for (size_t row = kRows * part / parts; row < kRows * (part + 1) / parts; ++row) {
              AwqToU4(in + row * kColumns / 2, kColumns / 8, ordered);
              const QuantizedRun run = {.type = ElementType::kU4,
                                        .weights = ordered,
                                        .scales = scales.get() + row / kGroup * kColumns,
                                        .zeros = zeros.get() + row / kGroup * kColumns,
                                        .stream = true};
              Dequantize(run, ElementType::kF16, out + row * kColumns * 2, kColumns);
            }
          }};
}

// out[c][r] = in[r][c] of rows by columns; part `part` takes its columns.
StridedCopy Transposed(int64_t rows, int64_t columns, size_t part, size_t parts) {
  const int64_t each = columns / static_cast<int64_t>(parts);
  const int64_t first = each * static_cast<int64_t>(part);
  return {.rank = 2,
          .extent = {each, rows},
          .in_stride = {1, columns},
          .out_stride = {rows, 1},
          .in_offset = first,
          .out_offset = first * rows,
          .stream = true};
}

Case TransposeCase(const char* name, int bits, int64_t columns) {
  const int64_t rows = static_cast<int64_t>(kOutputBytes) * 8 / bits / columns;
  return {name, kOutputBytes, [=](const uint8_t* in, uint8_t* out, size_t part, size_t parts) {
            CopyStrided(Transposed(rows, columns, part, parts), bits, in, out);
          }};
}

Case TransposeConvertCase(const char* name) {
  return {name, kOutputBytes, [=](const uint8_t* in, uint8_t* out, size_t part, size_t parts) {
            ConvertStrided(Transposed(kRows, kColumns, part, parts), ElementType::kBF16, in,
                           ElementType::kF16, out);
          }};
}

void Register(const Case& kernel) {
  benchmark::RegisterBenchmark(kernel.name,
                               [kernel](benchmark::State& state) { BesideMemcpy(state, kernel); })
      ->Arg(1)
      ->Arg(2)
      ->ArgName("threads")
      ->Iterations(kRounds)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace npubank::kernels

int main(int argc, char** argv) {
  npubank::GuardStandardStreams();
  using namespace npubank::kernels;  // NOLINT: the names of this file
  using npubank::ElementType;
  Register(ConvertCase("BF16_to_F16", ElementType::kBF16, 2, ElementType::kF16, 2));
  Register(ConvertCase("F16_to_F32", ElementType::kF16, 2, ElementType::kF32, 4));
  Register(ConvertCase("F32_to_BF16", ElementType::kF32, 4, ElementType::kBF16, 2));
  Register(GroupedCase("I8_group128_to_F16", ElementType::kI8, 8, ElementType::kF16));
  Register(GroupedCase("U4_group128_to_F16", ElementType::kU4, 4, ElementType::kF16));
  Register(AwqCase("AWQ_to_F16"));
  Register(BlocksCase("Q4_0_to_F16", BlockFormat::kQ4_0));
  Register(BlocksCase("Q8_0_to_F16", BlockFormat::kQ8_0));
  Register(BlocksCase("Q4_K_to_F16", BlockFormat::kQ4_K));
  Register(BlocksCase("Q6_K_to_F16", BlockFormat::kQ6_K));
  Register(TransposeCase("transpose_16_bits", 16, 4096));
  Register(TransposeConvertCase("transpose_BF16_to_F16"));
  Register(TransposeCase("transpose_8_bits", 8, 8192));
  Register(TransposeCase("transpose_4_bits", 4, 8192));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
