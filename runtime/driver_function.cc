#include "npubank/runtime/driver_function.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

using level_zero::GraphArgument;
using level_zero::GraphPrecision;

absl::StatusOr<DriverFunction> DriverFunction::Create(std::shared_ptr<level_zero::Device> device,
                                                      absl::string_view blob,
                                                      absl::string_view name) {
  NPUBANK_ASSIGN_OR_RETURN(level_zero::Graph graph,
                           level_zero::Graph::Create(std::move(device), blob, name));
  NPUBANK_ASSIGN_OR_RETURN(std::vector<GraphArgument> arguments, graph.Arguments());
  return DriverFunction(std::move(graph), std::move(arguments));
}

std::optional<ElementType> ElementOf(GraphPrecision precision) {
  constexpr std::pair<GraphPrecision, ElementType> kElements[] = {
      {GraphPrecision::kF32, ElementType::kF32},
      {GraphPrecision::kF16, ElementType::kF16},
      {GraphPrecision::kBF16, ElementType::kBF16},
      {GraphPrecision::kF64, ElementType::kF64},
      {GraphPrecision::kF8E4M3, ElementType::kF8E4M3},
      {GraphPrecision::kF8E5M2, ElementType::kF8E5M2},
      {GraphPrecision::kI64, ElementType::kI64},
      {GraphPrecision::kI32, ElementType::kI32},
      {GraphPrecision::kI16, ElementType::kI16},
      {GraphPrecision::kI8, ElementType::kI8},
      {GraphPrecision::kI4, ElementType::kI4},
      {GraphPrecision::kU64, ElementType::kU64},
      {GraphPrecision::kU32, ElementType::kU32},
      {GraphPrecision::kU16, ElementType::kU16},
      {GraphPrecision::kU8, ElementType::kU8},
      {GraphPrecision::kU4, ElementType::kU4},
      {GraphPrecision::kNF4, ElementType::kNF4},
      {GraphPrecision::kBoolean, ElementType::kBool},
  };
  for (const auto& [from, to] : kElements)
    if (from == precision) return to;
  return std::nullopt;
}

std::string TypeText(const GraphArgument& argument) {
  const std::optional<ElementType> element = ElementOf(argument.precision);
  const std::string elements =
      element ? std::string(ElementTypeName(*element))
              : absl::StrCat("precision ", static_cast<uint32_t>(argument.precision), " ");
  return absl::StrCat(elements, "[", absl::StrJoin(argument.dims, ","), "]");
}

absl::Status CheckTakes(const GraphArgument& argument, const TensorType& type) {
  const absl::Span<const int64_t> dims = type.shape().dims();
  bool fits =
      ElementOf(argument.precision) == type.element() &&
      (argument.ranked ? dims.size() == argument.dims.size() : dims.size() <= argument.dims.size());
  for (size_t i = 0; fits && i < argument.dims.size(); ++i)
    fits = (i < dims.size() ? dims[i] : 1) == int64_t{argument.dims[i]};
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("is ", TypeText(argument), " as the driver says, not ", type.ToString()));
}

}  // namespace npubank
