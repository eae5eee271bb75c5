#include "npubank/lazy_tensor/shape.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace npubank {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 62;

}  // namespace

absl::StatusOr<Shape> Shape::Create(absl::Span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shape of rank ", dims.size(), "; at most ", kMaxRank, " are supported"));
  }
  // The product over the non-zero dimensions is bounded too, so that strides never overflow.
  int64_t product = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0 || (dim > 0 && product > kMaxCount / dim)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape [", absl::StrJoin(dims, ","), "] has ",
                       dim < 0 ? "a negative dimension" : "more than 2^62 elements"));
    }
    if (dim == 0) {
      empty = true;
    } else {
      product *= dim;
    }
  }
  Shape shape;
  shape.dims_.assign(dims.begin(), dims.end());
  shape.num_elements_ = empty ? 0 : product;
  return shape;
}

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(dims_, ","), "]"); }

absl::StatusOr<TensorType> TensorType::Create(ElementType element, Shape shape) {
  const int bits = BitWidth(element);
  const int64_t count = shape.num_elements();
  if (bits > 8 && count > kMaxCount / (bits / 8)) {
    return absl::InvalidArgumentError(
        absl::StrCat(ElementTypeName(element), shape.ToString(), " has more than 2^62 bytes"));
  }
  TensorType type;
  type.element_ = element;
  type.bytes_ = static_cast<uint64_t>(bits >= 8 ? count * (bits / 8) : count / 2 + count % 2);
  type.shape_ = std::move(shape);
  return type;
}

std::string TensorType::ToString() const {
  return absl::StrCat(ElementTypeName(element_), shape_.ToString());
}

}  // namespace npubank
