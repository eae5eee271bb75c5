// How fast whole recipes are evaluated from a file into memory, beside memcpy: bytes per second
// read and written, and the share of the speed at which memcpy moves as many bytes in and out, with
// one worker and with two.
//
//   evaluate_benchmark                                       all of them
//   evaluate_benchmark --benchmark_filter='transposed.*/2'       transposed weights on two workers
//
// The file is a temporary one that lies in the page cache; outputs are 256 MiB, beyond most caches,
// in memory that was touched before and begins on a page, as a device's does. An evaluation and its
// memcpy, by as many threads, take turns, and each counts with its median, so that whatever else the
// machine does disturbs both alike.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tools/terminal/standard_streams.h"

namespace npubank {
namespace {

constexpr int64_t kRows = 32768;
constexpr int64_t kColumns = 4096;
constexpr int64_t kGroup = 128;
constexpr size_t kFileBytes = size_t{kRows * kColumns} * 2;
constexpr int kRounds = 9;

// Bits that make no infinite scale, in a file without a name.
std::shared_ptr<Source> TestFile() {
  std::vector<uint8_t> bytes(kFileBytes);
  uint64_t state = 1;
  for (uint8_t& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 33) & 0xBF;
  }
  const char* folder = std::getenv("TMPDIR");
  std::string path =
      std::string(folder != nullptr ? folder : "/tmp") + "/evaluate_benchmark_XXXXXX";
  const int fd = mkstemp(path.data());
  const bool written =
      fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  close(fd);
  const absl::StatusOr<std::shared_ptr<Source>> source = Source::OpenFile(path);
  unlink(path.c_str());
  if (written && source.ok()) return *source;
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  std::exit(1);
}

RecipePtr Stored(const std::shared_ptr<Source>& source, ElementType type,
                 absl::Span<const int64_t> dims) {
  return *Recipe::Constant(source, 0, *TensorType::Create(type, *Shape::Create(dims)), "weight");
}

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Pages = std::unique_ptr<std::byte[], FreeBytes>;

Pages TouchedPages(size_t size) {
  constexpr size_t kPage = 4096;
  const size_t rounded = AlignUp(size, kPage);
  Pages pages(static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)));
  std::memset(pages.get(), 1, rounded);
  return pages;
}

template <typename Body>
double Seconds(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// As many bytes in and out as `moved`, by as many threads as the evaluation has.
void Copy(const std::byte* in, std::byte* out, size_t bytes, size_t threads) {
  ThreadWorkers workers(static_cast<int>(threads));
  const absl::Status copied = workers.ForEach(static_cast<int64_t>(threads), [&](int64_t number) {
    const size_t first = bytes * number / threads;
    std::memcpy(out + first, in + first, bytes * (number + 1) / threads - first);
    return absl::OkStatus();
  });
  (void)copied;  // no part fails
}

void BesideMemcpy(benchmark::State& state, const RecipePtr& recipe) {
  const auto threads = static_cast<size_t>(state.range(0));
  ThreadWorkers workers(static_cast<int>(threads));
  EvaluateOptions options;
  options.workers = &workers;
  const uint64_t out_bytes = recipe->type().bytes();
  const size_t moved = (recipe->SourceBytes() + out_bytes) / 2;
  const Pages in = TouchedPages(moved);
  const Pages out = TouchedPages(std::max(out_bytes, moved));
  std::vector<double> evaluate_seconds;
  std::vector<double> copy_seconds;
  absl::Status status;
  for (auto _ : state) {
    evaluate_seconds.push_back(Seconds([&] {
      status = Evaluate(*recipe, {out.get(), out_bytes}, options);
    }));
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    copy_seconds.push_back(Seconds([&] { Copy(in.get(), out.get(), moved, threads); }));
    state.SetIterationTime(evaluate_seconds.back());
    benchmark::DoNotOptimize(out.get());
  }
  const double seconds = Median(evaluate_seconds);
  state.counters["GB/s"] = static_cast<double>(2 * moved) / seconds * 1e-9;
  state.counters["of_memcpy"] = Median(copy_seconds) / seconds;
}

void Register(const char* name, const RecipePtr& recipe) {
  benchmark::RegisterBenchmark(name,
                               [recipe](benchmark::State& state) { BesideMemcpy(state, recipe); })
      ->Arg(1)
      ->Arg(2)
      ->ArgName("workers")
      ->Iterations(kRounds)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void RegisterAll() {
  const std::shared_ptr<Source> file = TestFile();
  const RecipePtr weight = Stored(file, ElementType::kBF16, {kRows, kColumns});
  const RecipePtr transposed = *Recipe::Permute(weight, {1, 0});
  Register("as_stored", weight);
  Register("BF16_to_F16", *Recipe::Convert(weight, ElementType::kF16));
  Register("transposed", transposed);
  Register("transposed_BF16_to_F16", *Recipe::Convert(transposed, ElementType::kF16));

  const RecipePtr scales = Stored(file, ElementType::kF16, {kRows, kColumns / kGroup});
  Register("U4_group128_to_F16", *Recipe::Unpack(Stored(file, ElementType::kU4, {kRows, kColumns}),
                                                 scales, nullptr, ElementType::kF16));
  const auto awq = [&](int64_t rows) {
    return *Recipe::UnpackNibbles(Stored(file, ElementType::kI32, {rows, kColumns / 8}),
                                  NibbleLayout::kColumnsAwq);
  };
  const RecipePtr column_scales = Stored(file, ElementType::kF16, {kRows / kGroup, kColumns});
  const RecipePtr unpacked =
      *Recipe::Unpack(awq(kRows), column_scales, awq(kRows / kGroup), ElementType::kF16);
  Register("AWQ_to_F16", unpacked);
  Register("AWQ_to_F16_turned", *Recipe::Permute(unpacked, {1, 0}));
  const auto block_bytes = static_cast<int64_t>(kernels::BlockBytes(kernels::BlockFormat::kQ4_K));
  const auto block_length = static_cast<int64_t>(kernels::BlockLength(kernels::BlockFormat::kQ4_K));
  Register("Q4_K_to_F16",
           *Recipe::DequantizeBlocks(
               Stored(file, ElementType::kU8, {kRows, kColumns / block_length * block_bytes}),
               kernels::BlockFormat::kQ4_K, ElementType::kF16));
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  npubank::GuardStandardStreams();
  benchmark::Initialize(&argc, argv);
  npubank::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
