#include "npubank/compiler_stub/partition/repeat.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/partition/partition.h"

namespace npubank {
namespace {

// Bytes of a number, exactly: text would round floats.
template <typename Number>
void AppendBytes(std::string& text, Number number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

ParameterRole RoleOf(const GraphValue& value) {
  switch (value.kind) {
    case ValueKind::kComputed:
    case ValueKind::kInput:
      return ParameterRole::kActivation;
    case ValueKind::kState:
      return ParameterRole::kState;
    case ValueKind::kWeight:
      return ParameterRole::kWeight;
  }
  return ParameterRole::kActivation;
}

RepeatFinder::RepeatFinder(const Graph& graph)
    : graph_(graph), maker_(graph.values().size(), graph.ops().size()) {
  for (size_t i = 0; i < graph.ops().size(); ++i) maker_[graph.ops()[i].output] = i;
  looks_.reserve(graph.ops().size());
  for (const GraphOp& op : graph.ops()) looks_.push_back(Look(op));
}

uint64_t RepeatFinder::Look(const GraphOp& op) {
  const OpAttributes& a = op.attributes;
  std::string look = absl::StrCat(static_cast<int>(op.kind), " ", a.interleaved, a.transposed, " ",
                                  a.head_dim, " ", a.heads, " ", a.first_head, " ",
                                  a.heads_per_kv_head, " ", a.frequencies.size(), " ",
                                  a.form.Number(), " ", a.window, " ");
  AppendBytes(look, a.epsilon);
  AppendBytes(look, a.scale);
  for (float frequency : a.frequencies) AppendBytes(look, frequency);
  const auto append_value = [&](uint32_t number) {
    const GraphValue& value = graph_.value(graph_.Root(number));
    absl::StrAppend(&look, " ", static_cast<int>(RoleOf(value)), value.type.ToString());
  };
  for (uint32_t input : op.inputs) append_value(input);
  append_value(op.output);
  return known_looks_.emplace(std::move(look), known_looks_.size()).first->second;
}

std::vector<uint64_t> RepeatFinder::Signature(size_t begin, size_t end) const {
  std::vector<uint64_t> signature;
  signature.reserve(4 * (end - begin));
  std::vector<uint32_t> parameters;  // a block has few: looking through them beats a map
  for (size_t i = begin; i < end; ++i) {
    signature.push_back(looks_[i]);
    for (uint32_t input : graph_.ops()[i].inputs) {
      const size_t maker = maker_[input];
      if (maker >= begin && maker < end) {
        signature.push_back(2 * (maker - begin));
      } else {
        const uint32_t root = graph_.Root(input);
        const auto known = std::find(parameters.begin(), parameters.end(), root);
        signature.push_back(2 * static_cast<uint64_t>(known - parameters.begin()) + 1);
        if (known == parameters.end()) parameters.push_back(root);
      }
    }
  }
  return signature;
}

std::vector<uint32_t> RepeatFinder::Parameters(size_t begin, size_t end) const {
  std::vector<uint32_t> parameters;
  std::set<uint32_t> seen;
  for (size_t i = begin; i < end; ++i) {
    for (uint32_t input : graph_.ops()[i].inputs) {
      if (maker_[input] >= begin && maker_[input] < end) continue;
      const uint32_t root = graph_.Root(input);
      if (seen.insert(root).second) parameters.push_back(root);
    }
  }
  return parameters;
}

std::vector<RepeatFinder::Run> RepeatFinder::FindRuns(size_t begin, size_t end) const {
  std::vector<Run> runs;
  for (size_t period = kMinimumBlockOps; period <= (end - begin) / 2; ++period) {
    size_t length = 0;
    for (size_t i = begin; i + period <= end; ++i) {
      if (i + period < end && looks_[i] == looks_[i + period]) {
        ++length;
        continue;
      }
      if (length >= period) runs.push_back({i - length, length, period});
      length = 0;
    }
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return std::tuple(b.saved(), a.period, a.begin) < std::tuple(a.saved(), b.period, b.begin);
  });
  return runs;
}

// Whether a block consists of shorter blocks that look alike.
bool RepeatFinder::IsRepetition(size_t begin, size_t period) const {
  for (size_t part = 1; part <= period / 2; ++part) {
    if (period % part == 0 && std::equal(looks_.begin() + static_cast<ptrdiff_t>(begin + part),
                                         looks_.begin() + static_cast<ptrdiff_t>(begin + period),
                                         looks_.begin() + static_cast<ptrdiff_t>(begin))) {
      return true;
    }
  }
  return false;
}

std::optional<Repeat> RepeatFinder::LongestEqual(size_t begin, size_t period, size_t end) const {
  Repeat best;
  Repeat current;
  std::vector<uint64_t> last;
  for (size_t block = begin; block + period <= end; block += period) {
    std::vector<uint64_t> signature = Signature(block, block + period);
    if (signature != last) current = {block, period, 0};
    ++current.count;
    if (current.count > best.count) best = current;
    last = std::move(signature);
  }
  if (best.count < 2) return std::nullopt;
  return best;
}

uint64_t RepeatFinder::ActivationBytes(const Repeat& repeat) const {
  uint64_t bytes = 0;
  for (uint32_t value : Parameters(repeat.begin, repeat.begin + repeat.period)) {
    if (graph_.value(value).kind != ValueKind::kComputed) continue;
    bytes += graph_.value(value).type.bytes();
  }
  return bytes;
}

std::optional<Repeat> RepeatFinder::Find(size_t begin, size_t end) const {
  std::optional<Repeat> best;
  uint64_t best_bytes = 0;
  for (const Run& run : FindRuns(begin, end)) {
    if (best.has_value() && run.saved() < best->saved()) break;
    // The same blocks can be cut at any operation, as far as the run has room.
    const size_t slack = std::min(run.length - run.period, run.period - 1);
    for (size_t shift = 0; shift <= slack; ++shift) {
      const size_t first = run.begin + shift;
      if (IsRepetition(first, run.period)) break;
      const std::optional<Repeat> repeat =
          LongestEqual(first, run.period, run.begin + run.length + run.period);
      if (!repeat.has_value()) continue;
      const uint64_t bytes = ActivationBytes(*repeat);
      const bool better = !best.has_value() || repeat->saved() > best->saved() ||
                          (repeat->saved() == best->saved() && bytes < best_bytes);
      if (!better) continue;
      best = repeat;
      best_bytes = bytes;
    }
  }
  return best;
}

}  // namespace npubank
