#include "npubank/lazy_tensor/element_type.h"

#include <array>

namespace npubank {
namespace {

struct Facts {
  ElementType type;
  const char* name;
};

constexpr std::array<Facts, 18> kFacts = {{
    {ElementType::kF32, "F32"},
    {ElementType::kF16, "F16"},
    {ElementType::kBF16, "BF16"},
    {ElementType::kF8E4M3, "F8_E4M3"},
    {ElementType::kF8E5M2, "F8_E5M2"},
    {ElementType::kF64, "F64"},
    {ElementType::kI64, "I64"},
    {ElementType::kI32, "I32"},
    {ElementType::kI16, "I16"},
    {ElementType::kI8, "I8"},
    {ElementType::kU64, "U64"},
    {ElementType::kU32, "U32"},
    {ElementType::kU16, "U16"},
    {ElementType::kU8, "U8"},
    {ElementType::kBool, "BOOL"},
    {ElementType::kI4, "I4"},
    {ElementType::kU4, "U4"},
    {ElementType::kNF4, "NF4"},
}};

constexpr bool NumberedInOrder() {
  for (size_t i = 0; i < kFacts.size(); ++i) {
    if (static_cast<size_t>(kFacts[i].type) != i + 1) return false;
  }
  return true;
}
static_assert(NumberedInOrder(), "the table is indexed by the type's number");

const Facts& FactsOf(ElementType type) { return kFacts[static_cast<size_t>(type) - 1]; }

}  // namespace

absl::string_view ElementTypeName(ElementType type) { return FactsOf(type).name; }

std::optional<ElementType> ElementTypeFromName(absl::string_view name) {
  for (const Facts& facts : kFacts) {
    if (name == facts.name) return facts.type;
  }
  return std::nullopt;
}

std::optional<ElementType> ElementTypeFromNumber(uint32_t number) {
  if (number < 1 || number > kFacts.size()) return std::nullopt;
  return kFacts[number - 1].type;
}

}  // namespace npubank
