// bank-benchmark: what a registration costs when the tensor is known, by how many are known and by
// threads.
//
//   bank_benchmark --benchmark_min_time=0.5
//
// LookUp is what nobody can do without: the same handles in the same random order, each copied and
// its digest found in a hash map without a lock. With many tensors both are the price of fetching
// lines that no cache holds; a hit that costs a fixed multiple of a look-up is flat.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tools/terminal/standard_streams.h"

namespace npubank {
namespace {

struct KnownTensors {
  std::shared_ptr<Bank> bank = Bank::Create(std::make_shared<HostMemory>(), {});
  Owner owner = bank->AddOwner("known");
  std::vector<LazyTensor> tensors;

  explicit KnownTensors(int64_t count) {
    const auto source = Source::FromBuffer(std::vector<std::byte>(count * 4), "weights");
    const TensorType type =
        TensorType::Create(ElementType::kF32, Shape::Create({1}).value()).value();
    tensors.reserve(count);
    for (int64_t i = 0; i < count; ++i) {
      tensors.push_back(LazyTensor::Constant(source, i * 4, type, "w").value());
      if (!bank->Register(owner, tensors.back(), "w").ok()) std::abort();
    }
  }
};

void RegisterHit(benchmark::State& state) {
  static std::unique_ptr<KnownTensors> known;
  if (state.thread_index() == 0) known = std::make_unique<KnownTensors>(state.range(0));
  size_t at = static_cast<size_t>(state.thread_index()) * 7919;
  for (auto _ : state) {
    at = (at + 104729) % known->tensors.size();  // a prime, so that look-ups do not follow memory
    benchmark::DoNotOptimize(known->bank->Register(known->owner, known->tensors[at], "w"));
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) known.reset();
}
BENCHMARK(RegisterHit)->Arg(1000)->Arg(100000)->Arg(1000000)->Threads(1)->Threads(2)->UseRealTime();

void LookUp(benchmark::State& state) {
  const KnownTensors known(state.range(0));
  absl::flat_hash_map<uint64_t, std::unique_ptr<Digest>> digests;
  for (const LazyTensor& tensor : known.tensors)
    digests.emplace(tensor.uid().value, std::make_unique<Digest>(tensor.digest()));
  size_t at = 0;
  for (auto _ : state) {
    at = (at + 104729) % known.tensors.size();
    const LazyTensor tensor = known.tensors[at];
    benchmark::DoNotOptimize(*digests.find(tensor.uid().value)->second == tensor.digest());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(LookUp)->Arg(1000)->Arg(100000)->Arg(1000000)->UseRealTime();

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  npubank::GuardStandardStreams();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
