#include "npubank/compiler_stub/blob/function_check.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/function_storage.h"
#include "npubank/compiler_stub/blob/op_rules.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr size_t kMaxNameLength = 255;
constexpr int kMaxArgumentRank = 5;

absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(message); }

absl::Status CheckArgumentType(const TensorType& type) {
  if (type.shape().rank() > kMaxArgumentRank) {
    return Invalid(absl::StrCat("has more than ", kMaxArgumentRank, " dimensions"));
  }
  for (int64_t dim : type.shape().dims()) {
    if (dim < 1 || dim > std::numeric_limits<uint32_t>::max()) {
      return Invalid(absl::StrCat("is ", type.ToString(), "; each dimension must be in 1..2^32-1"));
    }
  }
  return absl::OkStatus();
}

// Outputs that lie on inputs: of the same type, one output to an input.
absl::Status CheckOver(const Function& function) {
  std::set<int32_t> taken;
  for (const FunctionArgument& argument : function.arguments) {
    if (argument.over == -1) continue;
    const auto over = static_cast<size_t>(argument.over);
    const bool fits =
        argument.kind == ArgumentKind::kOutput && argument.over >= 0 &&
        over < function.arguments.size() && function.arguments[over].kind == ArgumentKind::kInput &&
        function.arguments[over].name != kScratchArgument &&
        function.arguments[over].type == argument.type && taken.insert(argument.over).second;
    if (fits) continue;
    return Invalid(
        absl::StrCat("argument '", argument.name, "' cannot lie on argument ", argument.over));
  }
  return absl::OkStatus();
}

absl::Status CheckArguments(const Function& function) {
  std::set<absl::string_view> names;
  size_t inputs = 0;
  std::optional<size_t> scratch;
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const FunctionArgument& argument = function.arguments[i];
    NPUBANK_RETURN_IF_ERROR(Annotate(CheckName(argument.name), absl::StrCat("argument ", i)));
    const std::string what = absl::StrCat("argument '", argument.name, "'");
    NPUBANK_RETURN_IF_ERROR(Annotate(CheckArgumentType(argument.type), what));
    if (!names.insert(argument.name).second) return Invalid(absl::StrCat(what, " is there twice"));
    if (argument.kind == ArgumentKind::kInput) {
      if (inputs != i) return Invalid(absl::StrCat(what, " is an input after an output"));
      ++inputs;
    } else if (argument.kind != ArgumentKind::kOutput) {
      return Invalid(absl::StrCat(what, " is neither input nor output"));
    }
    if (argument.name == kScratchArgument) scratch = i;
  }
  if (scratch.has_value() != (function.scratch_bytes > 0)) {
    return Invalid("the argument 'scratch' must be there exactly when scratch_bytes is not 0");
  }
  NPUBANK_RETURN_IF_ERROR(CheckOver(function));
  if (!scratch.has_value()) return absl::OkStatus();
  const TensorType& type = function.arguments[*scratch].type;
  if (*scratch + 1 != inputs || type.element() != ElementType::kU8 || type.shape().rank() != 1 ||
      type.bytes() != function.scratch_bytes) {
    return Invalid(absl::StrCat("the argument 'scratch' is ", type.ToString(),
                                ", not the last input of type U8[", function.scratch_bytes, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckValue(const Function& function, const FunctionValue& value) {
  NPUBANK_RETURN_IF_ERROR(CheckName(value.name));
  for (int64_t dim : value.type.shape().dims()) {
    if (dim < 1) return Invalid(absl::StrCat("has an empty dimension: ", value.type.ToString()));
  }
  if (value.storage == Storage::kArgument) {
    if (value.place >= function.arguments.size())
      return Invalid("lies in an argument that is not there");
    const FunctionArgument& argument = function.arguments[value.place];
    if (argument.name == kScratchArgument) return Invalid("must say its place in scratch");
    if (argument.type == value.type) return absl::OkStatus();
    return Invalid(absl::StrCat("is ", value.type.ToString(), " in an argument of ",
                                argument.type.ToString()));
  }
  if (value.storage != Storage::kScratch) return Invalid("lies in an unknown storage");
  const uint64_t bytes = value.type.bytes();
  if (value.place % kScratchAlignment != 0) {
    return Invalid(absl::StrCat("lies at scratch offset ", value.place, ", not a multiple of ",
                                kScratchAlignment));
  }
  if (bytes > function.scratch_bytes || value.place > function.scratch_bytes - bytes) {
    return Invalid(absl::StrCat(bytes, " bytes at offset ", value.place, " reach beyond ",
                                function.scratch_bytes, " bytes of scratch"));
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const Function& function) {
  NPUBANK_RETURN_IF_ERROR(CheckArguments(function));
  for (size_t i = 0; i < function.values.size(); ++i) {
    NPUBANK_RETURN_IF_ERROR(
        Annotate(CheckValue(function, function.values[i]), absl::StrCat("value ", i)));
  }
  for (size_t i = 0; i < function.ops.size(); ++i) {
    const FunctionOp& op = function.ops[i];
    NPUBANK_RETURN_IF_ERROR(Annotate(CheckName(op.name), absl::StrCat("operation ", i)));
    NPUBANK_RETURN_IF_ERROR(
        Annotate(CheckOp(function, op), absl::StrCat("operation '", op.name, "'")));
  }
  return CheckStorage(function);
}

}  // namespace

absl::Status CheckFunction(const Function& function) {
  NPUBANK_RETURN_IF_ERROR(Annotate(CheckName(function.name), "function"));
  return Annotate(CheckParts(function), absl::StrCat("function '", function.name, "'"));
}

absl::Status CheckName(absl::string_view name) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (!name.empty() && name.size() <= kMaxNameLength &&
      std::none_of(name.begin(), name.end(), control)) {
    return absl::OkStatus();
  }
  return Invalid("name is empty, longer than 255 characters or has control characters");
}

}  // namespace npubank
