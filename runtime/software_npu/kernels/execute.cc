#include "npubank/runtime/software_npu/kernels/execute.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "npubank/runtime/software_npu/kernels/attention.h"
#include "npubank/runtime/software_npu/kernels/matmul.h"
#include "npubank/runtime/software_npu/kernels/rows.h"

namespace npubank::software_npu {
namespace {

constexpr char kScratchName[] = "scratch";

// Which input of an operation is its span.
std::optional<size_t> SpanInput(OpKind kind) {
  switch (kind) {
    case OpKind::kRope:
    case OpKind::kSoftmax:
    case OpKind::kSelectLast:
      return 1;
    case OpKind::kCacheWrite:
    case OpKind::kAttentionScores:
    case OpKind::kAttentionMix:
      return 2;
    default:
      return std::nullopt;
  }
}

// The first dimension of an activation, or S of scores [heads, S, N].
int64_t RowsOf(const TensorType& type) {
  return type.shape().dim(type.shape().rank() == 3 ? 1 : 0);
}

}  // namespace

Program::Program(Function function)
    : function_(std::move(function)), writes_(function_.arguments.size(), false) {
  for (size_t i = 0; i < function_.arguments.size(); ++i) {
    const FunctionArgument& argument = function_.arguments[i];
    writes_[i] = argument.kind == ArgumentKind::kOutput;
    if (argument.name == kScratchName && function_.scratch_bytes > 0) {
      scratch_ = i;
      writes_[i] = true;
    }
  }
  bool one_span = true;
  for (const FunctionOp& op : function_.ops) {
    const FunctionValue& output = function_.values[op.output];
    if (output.storage == Storage::kArgument) writes_[output.place] = true;
    const std::optional<size_t> span_input = SpanInput(op.kind);
    if (!span_input.has_value()) continue;
    const uint32_t span = op.inputs[*span_input];
    const int64_t rows = RowsOf(function_.values[op.inputs[0]].type);
    one_span &= !span_.has_value() || (*span_ == span && span_rows_ == rows);
    span_ = span;
    span_rows_ = rows;
  }
  if (!one_span) span_.reset();
}

// One run: where values are, and the operations.
class Program::Execution {
 public:
  Execution(const Program& program, absl::Span<uint8_t* const> arguments)
      : program_(program), arguments_(arguments) {}

  bool Run() {
    for (const FunctionOp& op : program_.function_.ops) {
      if (!RunOp(op)) return false;
    }
    return true;
  }

 private:
  struct Window {
    int64_t start = 0;
    int64_t count = 0;
  };

  const FunctionValue& Value(uint32_t value) const { return program_.function_.values[value]; }
  const FunctionValue& Input(const FunctionOp& op, size_t i) const { return Value(op.inputs[i]); }

  uint8_t* Data(const FunctionValue& value) const {
    return value.storage == Storage::kArgument ? arguments_[value.place]
                                               : arguments_[*program_.scratch_] + value.place;
  }
  const float* In(const FunctionOp& op, size_t i) const {
    return reinterpret_cast<const float*>(Data(Input(op, i)));
  }
  float* Out(const FunctionOp& op) const {
    return reinterpret_cast<float*>(Data(Value(op.output)));
  }
  static int64_t Dim(const FunctionValue& value, int axis) { return value.type.shape().dim(axis); }

  Window SpanOf(uint32_t value) const {
    int32_t numbers[2];
    std::memcpy(numbers, Data(Value(value)), sizeof(numbers));
    return {numbers[0], numbers[1]};
  }

  // The span of an operation that takes one; false when it leaves the rows or the positions.
  bool ReadWindow(const FunctionOp& op, int64_t rows, int64_t positions, Window* window) const {
    *window = SpanOf(op.inputs[*SpanInput(op.kind)]);
    return window->start >= 0 && window->count >= 1 && window->count <= rows &&
           window->start + window->count <= positions;
  }

  // How many of `rows` rows count in an operation that takes no span itself.
  int64_t Counting(int64_t rows) const {
    if (!program_.span_.has_value() || rows != program_.span_rows_) return rows;
    return std::clamp<int64_t>(SpanOf(*program_.span_).count, 0, rows);
  }

  // The weight of an operation that takes one, as input 1 and those after it.
  WeightOperand Parts(const FunctionOp& op) const;

  bool RunOp(const FunctionOp& op) const;
  bool RunEmbed(const FunctionOp& op) const;
  bool RunMatMul(const FunctionOp& op) const;
  bool RunRope(const FunctionOp& op) const;
  bool RunCacheWrite(const FunctionOp& op) const;
  bool RunAttentionScores(const FunctionOp& op) const;
  bool RunSoftmax(const FunctionOp& op) const;
  bool RunAttentionMix(const FunctionOp& op) const;
  bool RunSelectLast(const FunctionOp& op) const;

  const Program& program_;
  absl::Span<uint8_t* const> arguments_;
};

WeightOperand Program::Execution::Parts(const FunctionOp& op) const {
  WeightOperand w;
  w.form = op.attributes.form;
  std::vector<TensorType> types;
  for (size_t i = 0; i < WeightInputs(op); ++i) {
    const FunctionValue& part = Input(op, 1 + i);
    w.parts[i] = Data(part);
    types.push_back(part.type);
  }
  const absl::StatusOr<TensorType> numbers = w.form.Numbers(types);  // checked with the function
  w.element = types[0].element();
  w.rows = numbers->shape().dim(0);
  w.columns = numbers->shape().dim(1);
  if (types.size() > 1) {
    w.scale = types[1].element();
    w.groups = types[1].shape().dim(w.form.by_rows() ? 1 : 0);
  }
  return w;
}

bool Program::Execution::RunEmbed(const FunctionOp& op) const {
  return Embed(reinterpret_cast<const int32_t*>(Data(Input(op, 0))), Counting(Dim(Input(op, 0), 0)),
               Parts(op), Out(op));
}

bool Program::Execution::RunMatMul(const FunctionOp& op) const {
  const FunctionValue& weight = Input(op, 1);
  MatMulOperands m;
  m.x = In(op, 0);
  m.rows = Counting(Dim(Input(op, 0), 0));
  m.depth = Dim(Input(op, 0), 1);
  m.weight = Data(weight);
  m.element = weight.type.element();
  const WeightOperand parts = Parts(op);
  if (!ListedGroupsExist(parts)) return false;
  if (!parts.form.plain()) m.parts = &parts;
  m.transposed = op.attributes.transposed;
  m.columns = Dim(Value(op.output), 1);
  const size_t addend = 1 + WeightInputs(op);
  m.addend = op.inputs.size() > addend ? In(op, addend) : nullptr;
  m.out = Out(op);
  MatMul(m);
  return true;
}

bool Program::Execution::RunRope(const FunctionOp& op) const {
  const FunctionValue& x = Input(op, 0);
  constexpr int64_t kAnyPosition = int64_t{1} << 32;
  Window window;
  if (!ReadWindow(op, Dim(x, 0), kAnyPosition, &window)) return false;
  const OpAttributes& attributes = op.attributes;
  Rope(In(op, 0), window.count, Dim(x, 1), attributes.head_dim, window.start,
       attributes.frequencies, attributes.interleaved, Out(op));
  return true;
}

bool Program::Execution::RunCacheWrite(const FunctionOp& op) const {
  const FunctionValue& cache = Input(op, 1);
  Window window;
  if (!ReadWindow(op, Dim(Input(op, 0), 0), Dim(cache, 0), &window)) return false;
  const int64_t width = Dim(cache, 1);
  std::memcpy(Out(op) + window.start * width, In(op, 0),
              static_cast<size_t>(window.count * width) * sizeof(float));
  return true;
}

bool Program::Execution::RunAttentionScores(const FunctionOp& op) const {
  const FunctionValue& q = Input(op, 0);
  const FunctionValue& cache = Input(op, 1);
  Window window;
  if (!ReadWindow(op, Dim(q, 0), Dim(cache, 0), &window)) return false;
  const OpAttributes& attributes = op.attributes;
  AttentionScores(
      {window.start, window.count, Dim(q, 0), Dim(cache, 0), Dim(q, 1), Dim(cache, 1),
       attributes.head_dim, attributes.heads, attributes.first_head, attributes.heads_per_kv_head,
       attributes.window},
      In(op, 0), In(op, 1), attributes.scale, Out(op));
  return true;
}

bool Program::Execution::RunSoftmax(const FunctionOp& op) const {
  const FunctionValue& scores = Input(op, 0);
  Window window;
  if (!ReadWindow(op, Dim(scores, 1), Dim(scores, 2), &window)) return false;
  AttentionOperands a;
  a.start = window.start;
  a.count = window.count;
  a.rows = Dim(scores, 1);
  a.positions = Dim(scores, 2);
  a.heads = Dim(scores, 0);
  a.window = op.attributes.window;
  CausalSoftmax(a, In(op, 0), Out(op));
  return true;
}

bool Program::Execution::RunAttentionMix(const FunctionOp& op) const {
  const FunctionValue& probabilities = Input(op, 0);
  const FunctionValue& cache = Input(op, 1);
  Window window;
  if (!ReadWindow(op, Dim(probabilities, 1), Dim(cache, 0), &window)) return false;
  const OpAttributes& attributes = op.attributes;
  AttentionMix({window.start, window.count, Dim(probabilities, 1), Dim(cache, 0),
                Dim(Value(op.output), 1), Dim(cache, 1), attributes.head_dim, attributes.heads,
                attributes.first_head, attributes.heads_per_kv_head, attributes.window},
               In(op, 0), In(op, 1), Out(op));
  return true;
}

bool Program::Execution::RunSelectLast(const FunctionOp& op) const {
  const FunctionValue& x = Input(op, 0);
  constexpr int64_t kAnyPosition = int64_t{1} << 32;
  Window window;
  if (!ReadWindow(op, Dim(x, 0), kAnyPosition, &window)) return false;
  const int64_t width = Dim(x, 1);
  std::memcpy(Out(op), In(op, 0) + (window.count - 1) * width,
              static_cast<size_t>(width) * sizeof(float));
  return true;
}

bool Program::Execution::RunOp(const FunctionOp& op) const {
  const FunctionValue& output = Value(op.output);
  switch (op.kind) {
    case OpKind::kEmbed:
      return RunEmbed(op);
    case OpKind::kRmsNorm: {
      const FunctionValue& weight = Input(op, 1);
      const int64_t width = Dim(weight, 0);
      RmsNorm(In(op, 0), Counting(Dim(output, 0)) * (Dim(output, 1) / width), width, Data(weight),
              weight.type.element(), op.attributes.epsilon, Out(op));
      return true;
    }
    case OpKind::kMatMul:
      return RunMatMul(op);
    case OpKind::kRope:
      return RunRope(op);
    case OpKind::kCacheWrite:
      return RunCacheWrite(op);
    case OpKind::kAttentionScores:
      return RunAttentionScores(op);
    case OpKind::kSoftmax:
      return RunSoftmax(op);
    case OpKind::kAttentionMix:
      return RunAttentionMix(op);
    case OpKind::kSiluMul:
      SiluMul(In(op, 0), In(op, 1), Counting(Dim(output, 0)), Dim(output, 1), Out(op));
      return true;
    case OpKind::kAdd:
      Add(In(op, 0), In(op, 1), Counting(Dim(output, 0)), Dim(output, 1), Out(op));
      return true;
    case OpKind::kSelectLast:
      return RunSelectLast(op);
    case OpKind::kAddBias:
      AddBias(In(op, 0), Counting(Dim(output, 0)), Dim(output, 1), Data(Input(op, 1)),
              Input(op, 1).type.element(), Out(op));
      return true;
  }
  return false;
}

bool Program::Run(absl::Span<uint8_t* const> arguments) const {
  return Execution(*this, arguments).Run();
}

}  // namespace npubank::software_npu
