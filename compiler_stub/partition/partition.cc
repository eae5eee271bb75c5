#include "npubank/compiler_stub/partition/partition.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "npubank/compiler_stub/partition/repeat.h"

namespace npubank {
namespace {

class Partitioner {
 public:
  explicit Partitioner(const Graph& graph) : graph_(graph), finder_(graph) {}

  Partition Run() {
    Cut(0, graph_.ops().size());
    for (PartitionCall& call : partition_.calls) call.inputs = Inputs(call);
    FindOutputs();
    return std::move(partition_);
  }

 private:
  // Cuts [begin, end) into its best repeat and what is before and after it, in order.
  void Cut(size_t begin, size_t end) {
    if (begin == end) return;
    const std::optional<Repeat> repeat = finder_.Find(begin, end);
    if (!repeat.has_value()) return AddCall(begin, end);
    Cut(begin, repeat->begin);
    for (size_t i = 0; i < repeat->count; ++i) {
      const size_t block = repeat->begin + i * repeat->period;
      AddCall(block, block + repeat->period);
    }
    Cut(repeat->end(), end);
  }

  // Calls of equal blocks call one function, wherever they are.
  void AddCall(size_t begin, size_t end) {
    const auto [known, added] =
        functions_.emplace(finder_.Signature(begin, end), partition_.functions.size());
    if (added) partition_.functions.emplace_back();
    partition_.functions[known->second].calls.push_back(partition_.calls.size());
    PartitionCall call;
    call.function = known->second;
    call.begin = begin;
    call.end = end;
    partition_.calls.push_back(std::move(call));
  }

  std::vector<uint32_t> Inputs(const PartitionCall& call) const {
    std::vector<uint32_t> inputs = finder_.Parameters(call.begin, call.end);
    std::stable_sort(inputs.begin(), inputs.end(), [&](uint32_t a, uint32_t b) {
      return RoleOf(graph_.value(a)) < RoleOf(graph_.value(b));
    });
    return inputs;
  }

  // An operation's result leaves its function when any call's is used by another call or is an
  // output.
  void FindOutputs() {
    std::vector<bool> leaves(graph_.values().size(), false);
    for (const PartitionCall& call : partition_.calls) {
      for (uint32_t input : call.inputs) leaves[input] = true;
    }
    for (uint32_t output : graph_.outputs()) leaves[output] = true;
    for (const PartitionFunction& function : partition_.functions) {
      const PartitionCall& first = partition_.calls[function.calls.front()];
      for (size_t i = 0; i < first.end - first.begin; ++i) {
        const bool handed_on = std::any_of(
            function.calls.begin(), function.calls.end(),
            [&](size_t c) { return leaves[graph_.ops()[partition_.calls[c].begin + i].output]; });
        if (!handed_on) continue;
        for (size_t c : function.calls) {
          PartitionCall& call = partition_.calls[c];
          call.outputs.push_back(graph_.ops()[call.begin + i].output);
        }
      }
    }
  }

  const Graph& graph_;
  const RepeatFinder finder_;
  std::map<std::vector<uint64_t>, size_t> functions_;  // by signature
  Partition partition_;
};

}  // namespace

Partition FindPartition(const Graph& graph) { return Partitioner(graph).Run(); }

}  // namespace npubank
