#include "npubank/compiler_stub/frontend/weights.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

// What matrices become where they are not used as they are stored.
ElementType TargetElement(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return ElementType::kF32;
    case WeightFormat::kBF16:
      return ElementType::kBF16;
    default:
      return ElementType::kF16;
  }
}

bool UsesStored(WeightFormat format) {
  return format == WeightFormat::kAuto || format == WeightFormat::kKeep ||
         format == WeightFormat::kPacked;
}

OperandWeight Operand(StoredWeight stored) {
  // Plain matrices are stored [out, in].
  return {stored.form, stored.form.by_rows(), std::move(stored.parts)};
}

}  // namespace

absl::StatusOr<StoredWeight> Weights::Stored(absl::string_view name,
                                             std::vector<int64_t> dims) const {
  NPUBANK_ASSIGN_OR_RETURN(StoredWeight stored, model_.Stored(name));
  absl::StatusOr<TensorType> numbers = stored.Numbers();
  if (!numbers.ok()) return Annotate(numbers.status(), absl::StrCat("tensor '", name, "'"));
  std::vector<int64_t> found(numbers->shape().dims().begin(), numbers->shape().dims().end());
  if (!stored.form.by_rows()) std::reverse(found.begin(), found.end());
  if (found == dims) return stored;
  NPUBANK_ASSIGN_OR_RETURN(const Shape expected, Shape::Create(dims));
  return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is ", numbers->ToString(),
                                                 "; the config asks for ", expected.ToString()));
}

void Weights::Tell(absl::string_view name, const StoredWeight& stored,
                   absl::string_view becomes) const {
  if (format_ != WeightFormat::kAuto || !converted_) return;
  const absl::string_view element = ElementTypeName(stored.parts[0].type().element());
  converted_(name, absl::StrCat(stored.form.plain() ? std::string(element) : stored.form.ToString(),
                                " to ", becomes));
}

absl::StatusOr<std::optional<OperandWeight>> Weights::AsStored(
    absl::string_view name, const StoredWeight& stored, absl::Span<const OpKind> users) const {
  if (!UsesStored(format_)) return std::nullopt;
  const auto usable = [&](const StoredWeight& weight) {
    return std::all_of(users.begin(), users.end(), [&](OpKind user) {
      return device_.Has(user, weight.form, weight.parts[0].type().element());
    });
  };
  if (format_ == WeightFormat::kKeep) return Operand(stored);
  if (format_ == WeightFormat::kAuto && usable(stored)) return Operand(stored);
  NPUBANK_ASSIGN_OR_RETURN(StoredWeight packed, Packed(stored));
  if (format_ != WeightFormat::kPacked && !usable(packed)) return std::nullopt;
  Tell(name, stored, packed.form.ToString());
  return Operand(std::move(packed));
}

absl::StatusOr<OperandWeight> Weights::Converted(absl::string_view name, const StoredWeight& stored,
                                                 bool transpose) const {
  absl::StatusOr<LazyTensor> numbers = Dequantized(stored);
  if (numbers.ok() && transpose) numbers = numbers->Permute({1, 0});
  if (numbers.ok()) {
    const bool vector = numbers->type().shape().rank() == 1;
    const ElementType to = vector ? ElementType::kF32 : TargetElement(format_);
    Tell(name, stored, ElementTypeName(to));
    numbers = numbers->Convert(to);
  }
  if (!numbers.ok()) return Annotate(numbers.status(), absl::StrCat("tensor '", name, "'"));
  return OperandWeight{WeightForm(), !transpose, {*std::move(numbers)}};
}

absl::StatusOr<OperandWeight> Weights::Matrix(absl::string_view name, int64_t out, int64_t in,
                                              RowRange rows) const {
  NPUBANK_ASSIGN_OR_RETURN(StoredWeight stored, Stored(name, {rows.all() ? out : rows.of, in}));
  if (!rows.all()) {
    absl::StatusOr<StoredWeight> part = Rows(stored, rows.first, out);
    if (!part.ok()) return Annotate(part.status(), absl::StrCat("tensor '", name, "'"));
    stored = *std::move(part);
  }
  NPUBANK_ASSIGN_OR_RETURN(std::optional<OperandWeight> used,
                           AsStored(name, stored, {OpKind::kMatMul}));
  if (used.has_value()) return *std::move(used);
  return Converted(name, stored, /*transpose=*/true);
}

absl::StatusOr<OperandWeight> Weights::Table(absl::string_view name, int64_t rows, int64_t columns,
                                             bool is_head) const {
  NPUBANK_ASSIGN_OR_RETURN(const StoredWeight stored, Stored(name, {rows, columns}));
  std::vector<OpKind> users = {OpKind::kEmbed};
  if (is_head) users.push_back(OpKind::kMatMul);
  NPUBANK_ASSIGN_OR_RETURN(std::optional<OperandWeight> used, AsStored(name, stored, users));
  if (used.has_value() && used->transposed) return *std::move(used);
  return Converted(name, stored, /*transpose=*/false);
}

absl::StatusOr<OperandWeight> Weights::Vector(absl::string_view name, int64_t size,
                                              OpKind user) const {
  NPUBANK_ASSIGN_OR_RETURN(const StoredWeight stored, Stored(name, {size}));
  NPUBANK_ASSIGN_OR_RETURN(std::optional<OperandWeight> used, AsStored(name, stored, {user}));
  if (used.has_value()) return *std::move(used);
  return Converted(name, stored, /*transpose=*/false);
}

}  // namespace npubank
