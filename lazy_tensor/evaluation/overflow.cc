#include "npubank/lazy_tensor/evaluation/overflow.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank {
namespace {

constexpr int64_t kPiece = 64 << 10;  // elements; its bytes stay in a core's cache

// The stored tensor that the recipe only moves the elements of and makes F16 of; null for any other recipe.
const Recipe* StoredBeforeF16(const Recipe& recipe) {
  bool converted = false;
  for (const Recipe* at = &recipe;; at = at->inputs()[0].get()) {
    if (std::holds_alternative<ConstantOp>(at->op())) return converted ? at : nullptr;
    if (std::holds_alternative<ConvertOp>(at->op())) {
      if (converted || at->type().element() != ElementType::kF16) return nullptr;
      converted = true;
    } else if (!std::holds_alternative<PermuteOp>(at->op()) &&
               !std::holds_alternative<ReshapeOp>(at->op())) {
      return nullptr;
    }
  }
}

// Where the bits of a type begin, without the sign, that F16 rounds to an infinity, and its own infinity.
struct Range {
  uint32_t first;
  uint32_t infinity;
};
constexpr Range kBrain = {0x4780, 0x7F80};          // from 65536 on
constexpr Range kSingle = {0x477FF000, 0x7F800000};  // from 65520 on

template <typename Bits>
Bits Magnitude(const std::byte* bytes, size_t i) {
  Bits bits = 0;
  std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
  constexpr auto kWithoutSign = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  return static_cast<Bits>(bits & kWithoutSign);
}

// The first number that is too large; `count` when there is none. The common case is a loop without a branch.
template <typename Bits>
size_t FirstTooLarge(const std::byte* bytes, size_t count, Range range) {
  const auto width = static_cast<Bits>(range.infinity - range.first);
  const auto too_large = [&](size_t i) {
    return static_cast<Bits>(Magnitude<Bits>(bytes, i) - static_cast<Bits>(range.first)) < width;
  };
  Bits any = 0;
  for (size_t i = 0; i < count; ++i) any = static_cast<Bits>(any | (too_large(i) ? 1 : 0));
  if (any == 0) return count;
  for (size_t i = 0; i < count; ++i) {
    if (too_large(i)) return i;
  }
  return count;
}

float NumberAt(ElementType element, const std::byte* bytes, size_t i) {
  uint32_t bits = 0;
  const bool brain = element == ElementType::kBF16;
  std::memcpy(&bits, bytes + i * (brain ? 2 : 4), brain ? 2 : 4);
  return std::bit_cast<float>(brain ? bits << 16 : bits);
}

std::string PlaceOf(int64_t at, const Shape& shape) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0; at /= shape.dim(axis)) {
    index[static_cast<size_t>(axis)] = at % shape.dim(axis);
  }
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

absl::Status CheckPiece(const Recipe& stored, int64_t first, const EvaluateOptions& options) {
  const ElementType element = stored.type().element();
  const bool brain = element == ElementType::kBF16;
  const int64_t size = brain ? 2 : 4;
  const int64_t count = std::min(kPiece, stored.type().num_elements() - first);
  std::vector<std::byte> bytes(static_cast<size_t>(count * size));
  NPUBANK_RETURN_IF_ERROR(
      EvaluateRange(stored, static_cast<uint64_t>(first * size), absl::MakeSpan(bytes), options));
  const auto length = static_cast<size_t>(count);
  const size_t at = brain ? FirstTooLarge<uint16_t>(bytes.data(), length, kBrain)
                          : FirstTooLarge<uint32_t>(bytes.data(), length, kSingle);
  if (at == length) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor '", std::get<ConstantOp>(stored.op()).name, "', ", stored.type().ToString(), ", has ",
      NumberAt(element, bytes.data(), at), " at ",
      PlaceOf(first + static_cast<int64_t>(at), stored.type().shape()),
      ", which F16 cannot hold; choose another weight format"));
}

}  // namespace

absl::Status CheckF16Holds(const Recipe& recipe, const EvaluateOptions& options) {
  const Recipe* const stored = StoredBeforeF16(recipe);
  if (stored == nullptr) return absl::OkStatus();
  const ElementType element = stored->type().element();
  if (element != ElementType::kBF16 && element != ElementType::kF32) return absl::OkStatus();
  EvaluateOptions inside = options;
  inside.workers = nullptr;
  inside.release_source_pages = false;  // what is made F16 is read once more
  const int64_t pieces = (stored->type().num_elements() + kPiece - 1) / kPiece;
  const auto check = [&](int64_t piece) { return CheckPiece(*stored, piece * kPiece, inside); };
  if (options.workers != nullptr) return options.workers->ForEach(pieces, check);
  for (int64_t piece = 0; piece < pieces; ++piece) NPUBANK_RETURN_IF_ERROR(check(piece));
  return absl::OkStatus();
}

}  // namespace npubank
