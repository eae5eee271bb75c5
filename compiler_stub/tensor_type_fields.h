// TensorType as two flatbuffers fields: the element's number and the dimensions.
#ifndef NPUBANK_COMPILER_STUB_TENSOR_TYPE_FIELDS_H_
#define NPUBANK_COMPILER_STUB_TENSOR_TYPE_FIELDS_H_

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler_stub/flatbuffer_root.h"
#include "lazy_tensor/shape.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {

// Errors: InvalidArgument for an unknown element or dimensions that Shape refuses.
inline absl::StatusOr<TensorType> ReadTensorType(uint8_t number,
                                                 const flatbuffers::Vector<int64_t>* dims) {
  const std::optional<ElementType> element = ElementTypeFromNumber(number);
  if (!element.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("element type ", number, " is not known"));
  }
  if (SizeOf(dims) > static_cast<uint32_t>(Shape::kMaxRank)) {
    return absl::InvalidArgumentError(absl::StrCat(SizeOf(dims), " dimensions are too many"));
  }
  std::vector<int64_t> sizes;
  if (dims != nullptr) sizes.assign(dims->begin(), dims->end());
  NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(sizes));
  return TensorType::Create(*element, std::move(shape));
}

inline uint8_t ElementNumber(const TensorType& type) {
  return static_cast<uint8_t>(type.element());
}

inline flatbuffers::Offset<flatbuffers::Vector<int64_t>> WriteDims(
    flatbuffers::FlatBufferBuilder& builder, const TensorType& type) {
  return builder.CreateVector(type.shape().dims().data(), type.shape().dims().size());
}

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_TENSOR_TYPE_FIELDS_H_
