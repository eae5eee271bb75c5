#include "npubank/compiler_stub/blob/op_rules.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// What elements an operand may have.
enum class Role { kActivation, kWeight, kIntegers };

// An operand: its elements, and its dimensions as letters that must agree within the operation. A
// digit is that size itself.
struct Operand {
  Role role;
  absl::string_view dims;
};

constexpr Operand kSpan = {Role::kIntegers, "2"};
constexpr Operand Activation(absl::string_view dims) { return {Role::kActivation, dims}; }
constexpr Operand Weight(absl::string_view dims) { return {Role::kWeight, dims}; }

constexpr size_t kMaxInputs = 4;

// The signature of an operation, and which inputs its result may overwrite (bit i: input i).
struct OpRule {
  OpKind kind;
  absl::string_view name;
  size_t required;  // inputs
  size_t allowed;
  std::array<Operand, kMaxInputs> inputs;
  Operand output;
  unsigned in_place;
};

constexpr OpRule kRules[] = {
    {OpKind::kEmbed, "Embed", 2, 2, {{{Role::kIntegers, "S"}, Weight("VD")}}, Activation("SD"), 0},
    {OpKind::kRmsNorm, "RmsNorm", 2, 2, {{Activation("SD"), Weight("W")}}, Activation("SD"), 1},
    {OpKind::kMatMul, "MatMul", 2, 3, {{Activation("SK"), Weight("KN"), Activation("SN")}}, Activation("SN"), 4},
    {OpKind::kRope, "Rope", 2, 2, {{Activation("SC"), kSpan}}, Activation("SC"), 1},
    {OpKind::kCacheWrite, "CacheWrite", 3, 3, {{Activation("SW"), Activation("NW"), kSpan}}, Activation("NW"), 2},
    {OpKind::kAttentionScores, "AttentionScores", 3, 3, {{Activation("SC"), Activation("NW"), kSpan}}, Activation("HSN"), 0},
    {OpKind::kSoftmax, "Softmax", 2, 2, {{Activation("HSN"), kSpan}}, Activation("HSN"), 1},
    {OpKind::kAttentionMix, "AttentionMix", 3, 4,
     {{Activation("HSN"), Activation("NW"), kSpan, Activation("SC")}}, Activation("SC"), 8},
    {OpKind::kSiluMul, "SiluMul", 2, 2, {{Activation("SF"), Activation("SF")}}, Activation("SF"), 3},
    {OpKind::kAdd, "Add", 2, 2, {{Activation("SD"), Activation("SD")}}, Activation("SD"), 3},
    {OpKind::kSelectLast, "SelectLast", 2, 2, {{Activation("SD"), kSpan}}, Activation("1D"), 0},
    {OpKind::kAddBias, "AddBias", 2, 2, {{Activation("SD"), Weight("D")}}, Activation("SD"), 1},
};

const OpRule* FindRule(OpKind kind) {
  for (const OpRule& rule : kRules) {
    if (rule.kind == kind) return &rule;
  }
  return nullptr;
}

bool ElementFits(Role role, ElementType element) {
  switch (role) {
    case Role::kActivation:
      return element == ElementType::kF32;
    case Role::kWeight:
      return element == ElementType::kF32 || element == ElementType::kF16 ||
             element == ElementType::kBF16;
    case Role::kIntegers:
      return element == ElementType::kI32;
  }
  return false;
}

absl::string_view RoleElements(Role role) {
  switch (role) {
    case Role::kActivation:
      return "F32";
    case Role::kWeight:
      return "F32, F16 or BF16";
    case Role::kIntegers:
      return "I32";
  }
  return "";
}

// The sizes that an operation's letters stand for.
class Dimensions {
 public:
  // Matches `type` against `operand`, learning letters not seen before.
  absl::Status Match(absl::string_view what, const Operand& operand, const TensorType& type) {
    const Shape& shape = type.shape();
    bool fits = ElementFits(operand.role, type.element()) &&
                shape.rank() == static_cast<int>(operand.dims.size());
    for (int axis = 0; fits && axis < shape.rank(); ++axis) {
      const char letter = operand.dims[static_cast<size_t>(axis)];
      int64_t& size = sizes_[static_cast<unsigned char>(letter) % sizes_.size()];
      if (letter >= '0' && letter <= '9') size = letter - '0';
      if (size == 0) size = shape.dim(axis);
      fits = size == shape.dim(axis);
    }
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(what, " is ", type.ToString(), ", not ",
                                                   RoleElements(operand.role), " ",
                                                   Expected(operand)));
  }

  int64_t operator[](char letter) const {
    return sizes_[static_cast<unsigned char>(letter) % sizes_.size()];
  }

 private:
  std::string Expected(const Operand& operand) const {
    std::string text = "[";
    for (char letter : operand.dims) {
      if (text.size() > 1) text += ',';
      const int64_t size = (*this)[letter];
      if (size != 0) {
        absl::StrAppend(&text, size);
      } else {
        text += letter;
      }
    }
    return text + "]";
  }

  std::array<int64_t, 128> sizes_ = {};  // by letter; 0 is not known yet
};

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

absl::Status CheckRope(const OpAttributes& a, const Dimensions& dims) {
  if (a.head_dim < 2 || a.head_dim % 2 != 0) {
    return Invalid(absl::StrCat("head_dim ", a.head_dim, " is not an even number of at least 2"));
  }
  if (dims['C'] % a.head_dim != 0) {
    return Invalid(absl::StrCat(dims['C'], " columns are not whole heads of ", a.head_dim));
  }
  if (static_cast<int64_t>(a.frequencies.size()) != a.head_dim / 2) {
    return Invalid(absl::StrCat(a.frequencies.size(), " frequencies for head_dim ", a.head_dim));
  }
  for (float frequency : a.frequencies) {
    if (!std::isfinite(frequency)) return Invalid("a frequency is not finite");
  }
  return absl::OkStatus();
}

absl::Status CheckHeads(const OpAttributes& a, const Dimensions& dims) {
  if (a.head_dim < 1) return Invalid("head_dim 0 is no size of a head");
  if (dims['C'] % a.head_dim != 0 || dims['W'] % a.head_dim != 0) {
    return Invalid(
        absl::StrCat(dims['C'], " or ", dims['W'], " columns are not whole heads of ", a.head_dim));
  }
  const int64_t heads = dims['C'] / a.head_dim;
  const int64_t kv_heads = dims['W'] / a.head_dim;
  if (a.heads != dims['H'] || a.first_head < 0 || a.first_head > heads - a.heads) {
    return Invalid(absl::StrCat("heads ", a.first_head, "+", a.heads, " do not fit ", heads,
                                " heads and scores of ", dims['H']));
  }
  if (a.heads_per_kv_head < 1 || (a.first_head + a.heads - 1) / a.heads_per_kv_head >= kv_heads) {
    return Invalid(absl::StrCat("heads_per_kv_head ", a.heads_per_kv_head, " reaches beyond ",
                                kv_heads, " heads of the cache"));
  }
  if (!std::isfinite(a.scale)) return Invalid("scale is not finite");
  return absl::OkStatus();
}

absl::Status CheckNorm(const OpAttributes& a, const Dimensions& dims) {
  if (!std::isfinite(a.epsilon) || a.epsilon < 0) {
    return Invalid("epsilon is not a number of at least 0");
  }
  if (dims['D'] % dims['W'] == 0) return absl::OkStatus();
  return Invalid(absl::StrCat(dims['D'], " columns are not whole pieces of ", dims['W']));
}

absl::Status CheckAttributes(const FunctionOp& op, const Dimensions& dims) {
  if (op.attributes.window < 0) return Invalid("a window of less than one position");
  switch (op.kind) {
    case OpKind::kRmsNorm:
      return CheckNorm(op.attributes, dims);
    case OpKind::kRope:
      return CheckRope(op.attributes, dims);
    case OpKind::kAttentionScores:
    case OpKind::kAttentionMix:
      return CheckHeads(op.attributes, dims);
    case OpKind::kCacheWrite:
      if (dims['S'] <= dims['N']) break;
      return Invalid(absl::StrCat(dims['S'], " rows do not fit a cache of ", dims['N']));
    default:
      break;
  }
  return absl::OkStatus();
}

// The types of an operation's inputs, a weight's parts taken together as the numbers that they hold.
absl::StatusOr<std::vector<TensorType>> OperandTypes(const Function& function,
                                                     const FunctionOp& op) {
  std::vector<TensorType> types;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] >= function.values.size())
      return Invalid(absl::StrCat("input ", i, " is not a value"));
    types.push_back(function.values[op.inputs[i]].type);
  }
  const WeightForm& form = op.attributes.form;
  if (form.plain()) return types;
  const size_t parts = WeightInputs(op);
  const bool takes_forms = op.kind == OpKind::kEmbed || op.kind == OpKind::kMatMul;
  if (!takes_forms || types.size() < 1 + parts) {
    return Invalid(absl::StrCat("takes no weight of ", form.ToString(), " in ",
                                types.empty() ? 0 : types.size() - 1, " inputs"));
  }
  if (form.by_rows() != (op.kind == OpKind::kEmbed || op.attributes.transposed)) {
    return Invalid(absl::StrCat("the rows of ", form.ToString(), " lie the other way"));
  }
  NPUBANK_ASSIGN_OR_RETURN(types[1], form.Numbers(absl::MakeConstSpan(types).subspan(1, parts)));
  types.erase(types.begin() + 2, types.begin() + 1 + static_cast<ptrdiff_t>(parts));
  return types;
}

}  // namespace

absl::Status CheckOp(const Function& function, const FunctionOp& op) {
  const OpRule* rule = FindRule(op.kind);
  if (rule == nullptr) {
    return Invalid(absl::StrCat("operation kind ", static_cast<int>(op.kind), " is not known"));
  }
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<TensorType> operands, OperandTypes(function, op));
  if (operands.size() < rule->required || operands.size() > rule->allowed) {
    return Invalid(absl::StrCat(operands.size(), " inputs, where ", rule->name, " takes ",
                                rule->required, " to ", rule->allowed));
  }
  if (op.output >= function.values.size()) return Invalid("output is not a value");
  Dimensions dims;
  for (size_t i = 0; i < operands.size(); ++i) {
    Operand operand = rule->inputs[i];
    if (op.kind == OpKind::kMatMul && i == 1 && op.attributes.transposed) operand.dims = "NK";
    NPUBANK_RETURN_IF_ERROR(dims.Match(absl::StrCat("input ", i), operand, operands[i]));
  }
  NPUBANK_RETURN_IF_ERROR(dims.Match("output", rule->output, function.values[op.output].type));
  return CheckAttributes(op, dims);
}

absl::string_view OpKindName(OpKind kind) {
  const OpRule* rule = FindRule(kind);
  return rule == nullptr ? absl::string_view("unknown") : rule->name;
}

bool OutputMayOverwrite(const FunctionOp& op, size_t input) {
  const OpRule* rule = FindRule(op.kind);
  const size_t parts = WeightInputs(op);
  if (parts > 1 && input > 0) {
    if (input <= parts) return false;
    input -= parts - 1;
  }
  return rule != nullptr && input < kMaxInputs && (rule->in_place >> input & 1) != 0;
}

}  // namespace npubank
