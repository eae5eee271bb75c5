#include "npubank/lazy_tensor/evaluation/overflow.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "npubank/lazy_tensor/kernels/convert.h"
#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank {
namespace {

// "tensor 'up_proj', BF16[8,8]"
std::string NameOf(const Recipe& values) {
  const Recipe* stored = &values;
  while (!stored->inputs().empty()) stored = stored->inputs()[0].get();
  const auto* const constant = std::get_if<ConstantOp>(&stored->op());
  const std::string name = constant == nullptr ? "" : absl::StrCat("tensor '", constant->name, "', ");
  return absl::StrCat(stored == &values ? "" : "what is made of ", name, values.type().ToString());
}

float NumberAt(ElementType element, const std::byte* numbers, size_t i) {
  uint32_t bits = 0;
  const bool brain = element == ElementType::kBF16;
  const size_t size = brain ? 2 : 4;
  std::memcpy(&bits, numbers + i * size, size);
  return std::bit_cast<float>(brain ? bits << 16 : bits);
}

// "[12,34]", of element `at` of the box.
std::string PlaceOf(int64_t at, const Box& box) {
  std::vector<int64_t> index(static_cast<size_t>(box.rank));
  for (int axis = box.rank; axis-- > 0; at /= box.extent[axis]) {
    index[static_cast<size_t>(axis)] = box.start[axis] + at % box.extent[axis];
  }
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

}  // namespace

absl::Status CheckF16Holds(const Recipe& values, const Box& box, ElementType element, const std::byte* numbers) {
  if (element != ElementType::kBF16 && element != ElementType::kF32) return absl::OkStatus();
  const auto count = static_cast<size_t>(box.elements());
  const size_t at = kernels::FirstBeyondF16(element, numbers, count);
  if (at == count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(NameOf(values), ", has ", NumberAt(element, numbers, at), " at ",
                                                 PlaceOf(static_cast<int64_t>(at), box),
                                                 ", which F16 cannot hold; choose another weight format"));
}

}  // namespace npubank
