// Weights: what a network's operations take of a checkpoint, in the form that the weight format says.
//
//   Weights weights(*checkpoint, options);
//   NPUBANK_ASSIGN_OR_RETURN(OperandWeight up, weights.Matrix("...up_proj.weight", inner, hidden));
//   up.form, up.transposed;      // of the MatMul over it
//   up.parts;                    // its operands, in order
//
// One tensor is looked up once per call, checked against the shape that the network asks for, and given as
//   keep             it is stored
//   packed           it is stored, but in planes where planes hold it exactly (stored_weight.h)
//   auto             it is stored where the device has a function for that, else packed, else as F16
//   f32, f16, bf16   one tensor of that type; matrices [in, out]
// The choice is made from the stored tensor and DeviceTraits alone, so that every submodel of a model, in
// every process, makes the same one.
//
// Norms and biases are vectors: stored, or F32. Errors: those of Checkpoint::Stored; InvalidArgument for a tensor
// whose shape is not what the network asks for, or that the format cannot take; both name it. Threads: pure.
#ifndef NPUBANK_COMPILER_STUB_FRONTEND_WEIGHTS_H_
#define NPUBANK_COMPILER_STUB_FRONTEND_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/compiler_stub/compile_options.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/formats/stored_weight.h"

namespace npubank {

// Rows of a stored tensor of `of` rows, from `first` on; by default all that there are.
struct RowRange {
  int64_t first = 0;
  int64_t of = 0;
  bool all() const { return of == 0; }
};

struct OperandWeight {
  WeightForm form;
  bool transposed = false;  // [out, in], as stored
  std::vector<LazyTensor> parts;
};

class Weights {
 public:
  Weights(const Checkpoint& model, const CompileOptions& options)
      : model_(model),
        format_(options.weights),
        device_(options.device),
        converted_(options.converted) {}

  // Of a MatMul from `in` to `out` numbers: a tensor, or `out` rows of one that several share.
  absl::StatusOr<OperandWeight> Matrix(absl::string_view name, int64_t out, int64_t in,
                                       RowRange rows = {}) const;
  // Rows that are looked up, and that the head may use as its matrix as well: never transposed.
  absl::StatusOr<OperandWeight> Table(absl::string_view name, int64_t rows, int64_t columns,
                                      bool is_head) const;
  // A norm or a bias, for that operation.
  absl::StatusOr<OperandWeight> Vector(absl::string_view name, int64_t size, OpKind user) const;

 private:
  absl::StatusOr<StoredWeight> Stored(absl::string_view name, std::vector<int64_t> dims) const;
  // As it is stored or in planes; nullopt where it shall be numbers of one type.
  absl::StatusOr<std::optional<OperandWeight>> AsStored(absl::string_view name,
                                                        const StoredWeight& stored,
                                                        absl::Span<const OpKind> users) const;
  // The numbers as one tensor of the format's type.
  absl::StatusOr<OperandWeight> Converted(absl::string_view name, const StoredWeight& stored,
                                          bool transpose) const;

  // Tells who wants to know of what kAuto chose.
  void Tell(absl::string_view name, const StoredWeight& stored, absl::string_view becomes) const;

  const Checkpoint& model_;
  const WeightFormat format_;
  const DeviceTraits& device_;
  const std::function<void(absl::string_view, absl::string_view)>& converted_;
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_FRONTEND_WEIGHTS_H_
