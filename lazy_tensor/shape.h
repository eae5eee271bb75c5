// Shape: the dimensions of a tensor, checked once when made. TensorType: a shape of elements.
//
//   NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create({4096, 4096}));
//   NPUBANK_ASSIGN_OR_RETURN(TensorType type, TensorType::Create(ElementType::kBF16, shape));
//   type.bytes();        // 33554432
//   type.ToString();     // "BF16[4096,4096]"
//
// Values; copy freely. Row-major: the last dimension is contiguous. Rank 0 is one element.
// A dimension may be 0. Create fails with InvalidArgument for a negative dimension, a rank over
// kMaxRank, or an element or byte count above 2^62; nothing downstream needs to check again.
#ifndef NPUBANK_LAZY_TENSOR_SHAPE_H_
#define NPUBANK_LAZY_TENSOR_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/element_type.h"

namespace npubank {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  static absl::StatusOr<Shape> Create(absl::Span<const int64_t> dims);

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int axis) const { return dims_[axis]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  int64_t num_elements() const { return num_elements_; }
  std::string ToString() const;  // "[4096,4096]"

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  std::vector<int64_t> dims_;
  int64_t num_elements_ = 1;
};

class TensorType {
 public:
  TensorType() = default;  // a scalar F32
  static absl::StatusOr<TensorType> Create(ElementType element, Shape shape);

  ElementType element() const { return element_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  uint64_t bytes() const { return bytes_; }  // four-bit elements: rounded up to a whole byte
  std::string ToString() const;

  friend bool operator==(const TensorType& a, const TensorType& b) {
    return a.element_ == b.element_ && a.shape_ == b.shape_;
  }
  friend bool operator!=(const TensorType& a, const TensorType& b) { return !(a == b); }

 private:
  ElementType element_ = ElementType::kF32;
  Shape shape_;
  uint64_t bytes_ = 4;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_SHAPE_H_
