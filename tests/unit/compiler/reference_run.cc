#include "npubank/tests/unit/compiler/reference_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

namespace npubank {
namespace {

// An operation with its operands where they are.
struct Step {
  const Function& function;
  const FunctionOp& op;
  std::vector<void*> in;
  float* out = nullptr;

  const float* x(size_t i) const { return static_cast<const float*>(in[i]); }
  const int32_t* ids(size_t i) const { return static_cast<const int32_t*>(in[i]); }
  int64_t dim(size_t i, int axis) const {
    return function.values[op.inputs[i]].type.shape().dim(axis);
  }
  int64_t out_dim(int axis) const { return function.values[op.output].type.shape().dim(axis); }
};

// How many inputs a weight is, from the second on.
size_t PartsOf(const Step& s) { return s.op.attributes.form.Parts().size(); }

// Number i of that weight: F32, or I8 under scales and perhaps minima for each group of a row.
float NumberOf(const Step& s, int64_t i) {
  if (s.op.attributes.form.plain()) return s.x(1)[i];
  const int64_t columns = s.dim(1, 1);
  const int64_t groups = s.dim(2, 1);
  const int64_t group = i / columns * groups + i % columns / (columns / groups);
  const float number = static_cast<float>(static_cast<const int8_t*>(s.in[1])[i]) * s.x(2)[group];
  return PartsOf(s) == 3 ? number + s.x(3)[group] : number;
}

void Embed(const Step& s) {
  const int64_t d = s.dim(1, 1);
  for (int64_t r = 0; r < s.dim(0, 0); ++r) {
    for (int64_t i = 0; i < d; ++i) s.out[r * d + i] = NumberOf(s, s.ids(0)[r] * d + i);
  }
}

void RmsNorm(const Step& s) {
  const int64_t d = s.dim(1, 0);
  for (int64_t r = 0; r < s.dim(0, 0) * (s.dim(0, 1) / d); ++r) {
    float sum = 0;
    for (int64_t i = 0; i < d; ++i) sum += s.x(0)[r * d + i] * s.x(0)[r * d + i];
    const float scale = 1 / std::sqrt(sum / static_cast<float>(d) + s.op.attributes.epsilon);
    for (int64_t i = 0; i < d; ++i) s.out[r * d + i] = s.x(0)[r * d + i] * scale * s.x(1)[i];
  }
}

void MatMul(const Step& s) {
  const int64_t depth = s.dim(0, 1);
  const int64_t columns = s.out_dim(1);
  for (int64_t r = 0; r < s.out_dim(0); ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        const int64_t w = s.op.attributes.transposed ? c * depth + k : k * columns + c;
        sum += s.x(0)[r * depth + k] * NumberOf(s, w);
      }
      const size_t addend = 1 + PartsOf(s);
      s.out[r * columns + c] = s.in.size() > addend ? s.x(addend)[r * columns + c] + sum : sum;
    }
  }
}

void Rope(const Step& s) {
  const OpAttributes& a = s.op.attributes;
  const int64_t columns = s.dim(0, 1);
  for (int64_t r = 0; r < s.dim(0, 0); ++r) {
    for (int64_t head = 0; head < columns; head += a.head_dim) {
      for (int64_t i = 0; i < a.head_dim / 2; ++i) {
        const int64_t first = r * columns + head + (a.interleaved ? 2 * i : i);
        const int64_t second = first + (a.interleaved ? 1 : a.head_dim / 2);
        const float angle =
            static_cast<float>(s.ids(1)[0] + r) * a.frequencies[static_cast<size_t>(i)];
        const float left = s.x(0)[first];
        const float right = s.x(0)[second];
        s.out[first] = left * std::cos(angle) - right * std::sin(angle);
        s.out[second] = left * std::sin(angle) + right * std::cos(angle);
      }
    }
  }
}

void CacheWrite(const Step& s) {
  const int64_t width = s.dim(0, 1);
  std::memcpy(s.out + s.ids(2)[0] * width, s.x(0),
              static_cast<size_t>(s.ids(2)[1] * width) * sizeof(float));
}

void AttentionScores(const Step& s) {
  const OpAttributes& a = s.op.attributes;
  const int64_t rows = s.out_dim(1);
  const int64_t positions = s.out_dim(2);
  for (int64_t h = 0; h < a.heads; ++h) {
    const int64_t head = a.first_head + h;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t n = 0; n < positions; ++n) {
        float sum = 0;
        for (int64_t i = 0; i < a.head_dim; ++i) {
          sum += s.x(0)[r * s.dim(0, 1) + head * a.head_dim + i] *
                 s.x(1)[n * s.dim(1, 1) + head / a.heads_per_kv_head * a.head_dim + i];
        }
        s.out[(h * rows + r) * positions + n] = sum * a.scale;
      }
    }
  }
}

void Softmax(const Step& s) {
  const int64_t rows = s.dim(0, 1);
  const int64_t positions = s.dim(0, 2);
  for (int64_t i = 0; i < s.dim(0, 0) * rows; ++i) {
    const int64_t visible = std::min<int64_t>(positions, s.ids(1)[0] + i % rows + 1);
    const int64_t window = s.op.attributes.window;
    const int64_t first = window > 0 ? std::max<int64_t>(0, visible - window) : 0;
    const float* x = s.x(0) + i * positions;
    const float largest = *std::max_element(x + first, x + visible);
    float sum = 0;
    for (int64_t n = first; n < visible; ++n) sum += std::exp(x[n] - largest);
    for (int64_t n = 0; n < positions; ++n) {
      s.out[i * positions + n] = n >= first && n < visible ? std::exp(x[n] - largest) / sum : 0;
    }
  }
}

void AttentionMix(const Step& s) {
  const OpAttributes& a = s.op.attributes;
  const int64_t rows = s.dim(0, 1);
  const int64_t positions = s.dim(0, 2);
  for (int64_t h = 0; h < a.heads; ++h) {
    const int64_t head = a.first_head + h;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < a.head_dim; ++i) {
        float sum = 0;
        for (int64_t n = 0; n < positions; ++n) {
          const float p = s.x(0)[(h * rows + r) * positions + n];
          if (p == 0) continue;  // positions not written yet may hold anything
          sum += p * s.x(1)[n * s.dim(1, 1) + head / a.heads_per_kv_head * a.head_dim + i];
        }
        s.out[r * s.out_dim(1) + head * a.head_dim + i] = sum;
      }
    }
  }
}

void Execute(const Step& s) {
  const int64_t elements = s.function.values[s.op.output].type.num_elements();
  switch (s.op.kind) {
    case OpKind::kEmbed:
      return Embed(s);
    case OpKind::kRmsNorm:
      return RmsNorm(s);
    case OpKind::kMatMul:
      return MatMul(s);
    case OpKind::kRope:
      return Rope(s);
    case OpKind::kCacheWrite:
      return CacheWrite(s);
    case OpKind::kAttentionScores:
      return AttentionScores(s);
    case OpKind::kSoftmax:
      return Softmax(s);
    case OpKind::kAttentionMix:
      return AttentionMix(s);
    case OpKind::kSiluMul:
      for (int64_t i = 0; i < elements; ++i) {
        s.out[i] = s.x(0)[i] / (1 + std::exp(-s.x(0)[i])) * s.x(1)[i];
      }
      return;
    case OpKind::kAdd:
      for (int64_t i = 0; i < elements; ++i) s.out[i] = s.x(0)[i] + s.x(1)[i];
      return;
    case OpKind::kAddBias:
      for (int64_t i = 0; i < elements; ++i) s.out[i] = s.x(0)[i] + s.x(1)[i % s.dim(1, 0)];
      return;
    case OpKind::kSelectLast:
      std::memcpy(s.out, s.x(0) + (s.ids(1)[1] - 1) * s.dim(0, 1),
                  static_cast<size_t>(s.dim(0, 1)) * sizeof(float));
      return;
  }
}

// The same numbers for the same name, whoever asks: floats, or bytes of -1 to 1 in the room of floats.
std::vector<float> MakeUp(const std::string& name, const TensorType& type) {
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937 random(seed);
  std::vector<float> weights(static_cast<size_t>(type.num_elements()));
  if (type.element() == ElementType::kI8) {
    auto* const bytes = reinterpret_cast<int8_t*>(weights.data());
    for (size_t i = 0; i < weights.size(); ++i) bytes[i] = static_cast<int8_t>(random() % 3) - 1;
    return weights;
  }
  for (float& weight : weights) {
    weight = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  }
  return weights;
}

}  // namespace

ReferenceRun::ReferenceRun(SubmodelBlob blob) : blob_(std::move(blob)), arena_(blob_.arena_bytes) {
  inputs_["tokens"].resize(blob_.chunk);
  inputs_["span"].resize(2);
  for (const SubmodelValue& value : blob_.values) {
    if (value.placement != Placement::kOutput && value.placement != Placement::kState) continue;
    values_[value.name].assign(static_cast<size_t>(value.type.num_elements()),
                               std::numeric_limits<float>::quiet_NaN());
  }
}

void* ReferenceRun::Resolve(const Binding& binding, const TensorType& type) {
  if (binding.kind == BindingKind::kScratch) return arena_.data() + blob_.scratch_offset;
  if (binding.kind == BindingKind::kWeight) {
    const std::string name = blob_.weights[binding.index].ToString();
    std::vector<float>& weight = weights_[name];
    if (weight.empty()) weight = MakeUp(name, type);
    return weight.data();
  }
  const SubmodelValue& value = blob_.values[binding.index];
  if (value.placement == Placement::kArena) return arena_.data() + value.offset;
  if (value.placement == Placement::kInput && type.element() == ElementType::kI32) {
    return inputs_[value.name].data();
  }
  if (value.placement == Placement::kInput) {
    std::vector<float>& input = weights_[value.name];
    if (input.empty()) input = MakeUp(value.name, type);
    return input.data();
  }
  return values_[value.name].data();
}

std::vector<float> ReferenceRun::Run(const std::vector<int32_t>& tokens, int32_t position) {
  std::fill(arena_.begin(), arena_.end(), std::byte{0xff});  // not a number, as floats
  std::copy(tokens.begin(), tokens.end(), inputs_["tokens"].begin());
  inputs_["span"] = {position, static_cast<int32_t>(tokens.size())};
  for (const Call& call : blob_.calls) {
    const Function& function = blob_.functions[call.function].function;
    std::vector<std::byte*> arguments;
    for (size_t a = 0; a < call.arguments.size(); ++a) {
      arguments.push_back(
          static_cast<std::byte*>(Resolve(call.arguments[a], function.arguments[a].type)));
    }
    const auto address = [&](uint32_t number) -> std::byte* {
      const FunctionValue& value = function.values[number];
      if (value.storage == Storage::kArgument) return arguments[value.place];
      return arena_.data() + blob_.scratch_offset + value.place;
    };
    for (const FunctionOp& op : function.ops) {
      Step step{function, op, {}, reinterpret_cast<float*>(address(op.output))};
      for (uint32_t input : op.inputs) step.in.push_back(address(input));
      Execute(step);
    }
  }
  return values_["logits"];
}

std::map<std::string, std::vector<float>> RunApart(const Graph& graph,
                                                   const std::vector<int32_t>& tokens) {
  Function function;  // of which Execute looks at types alone
  std::vector<std::vector<float>> memory;
  std::vector<int32_t> ids = tokens;
  std::vector<int32_t> span = {0, static_cast<int32_t>(tokens.size())};
  for (const GraphValue& value : graph.values()) {
    function.values.push_back({value.name, value.type, Storage::kScratch, 0});
    const bool given = value.kind == ValueKind::kInput || value.kind == ValueKind::kWeight;
    const std::string name = SubmodelWeight{value.name, value.part}.ToString();
    memory.push_back(given ? MakeUp(name, value.type)
                           : std::vector<float>(static_cast<size_t>(value.type.num_elements()),
                                                std::numeric_limits<float>::quiet_NaN()));
  }
  for (const GraphOp& op : graph.ops()) {
    Step step{function, op, {}, memory[graph.Root(op.output)].data()};
    for (uint32_t input : op.inputs) {
      const GraphValue& value = graph.value(input);
      const bool integers = value.type.element() == ElementType::kI32;
      step.in.push_back(!integers ? static_cast<void*>(memory[graph.Root(input)].data())
                        : value.name == "span" ? span.data()
                                               : ids.data());
    }
    const bool adds_heads = op.kind == OpKind::kAttentionMix && op.inputs.size() > 3;
    if (adds_heads) memory[op.output] = memory[op.inputs[3]];
    if (adds_heads) step.out = memory[op.output].data();
    Execute(step);
  }
  std::map<std::string, std::vector<float>> results;
  for (uint32_t output : graph.outputs()) results[graph.value(output).name] = memory[output];
  for (uint32_t v = 0; v < graph.values().size(); ++v) {
    if (graph.value(v).kind == ValueKind::kState) results[graph.value(v).name] = memory[v];
  }
  return results;
}

void Shuffle(Function& function, std::mt19937& random) {
  std::set<uint32_t> waiting;  // values that operations still have to make
  for (const FunctionOp& op : function.ops) waiting.insert(op.output);
  std::vector<FunctionOp> left = std::move(function.ops);
  function.ops.clear();
  while (!left.empty()) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < left.size(); ++i) {
      const bool waits = std::any_of(left[i].inputs.begin(), left[i].inputs.end(),
                                     [&](uint32_t input) { return waiting.count(input) > 0; });
      if (!waits) ready.push_back(i);
    }
    const size_t next = ready[random() % ready.size()];
    waiting.erase(left[next].output);
    function.ops.push_back(std::move(left[next]));
    left.erase(left.begin() + static_cast<ptrdiff_t>(next));
  }
}

}  // namespace npubank
