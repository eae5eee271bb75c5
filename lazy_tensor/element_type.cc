#include "lazy_tensor/element_type.h"

#include <array>

namespace npubank {
namespace {

struct Facts {
  ElementType type;
  int bits;
  const char* name;
};

constexpr std::array<Facts, 18> kFacts = {{
    {ElementType::kF32, 32, "F32"},
    {ElementType::kF16, 16, "F16"},
    {ElementType::kBF16, 16, "BF16"},
    {ElementType::kF8E4M3, 8, "F8_E4M3"},
    {ElementType::kF8E5M2, 8, "F8_E5M2"},
    {ElementType::kF64, 64, "F64"},
    {ElementType::kI64, 64, "I64"},
    {ElementType::kI32, 32, "I32"},
    {ElementType::kI16, 16, "I16"},
    {ElementType::kI8, 8, "I8"},
    {ElementType::kU64, 64, "U64"},
    {ElementType::kU32, 32, "U32"},
    {ElementType::kU16, 16, "U16"},
    {ElementType::kU8, 8, "U8"},
    {ElementType::kBool, 8, "BOOL"},
    {ElementType::kI4, 4, "I4"},
    {ElementType::kU4, 4, "U4"},
    {ElementType::kNF4, 4, "NF4"},
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

int BitWidth(ElementType type) { return FactsOf(type).bits; }

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
