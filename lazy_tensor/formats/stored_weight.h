// StoredWeight: a weight as its files have it: a form (weight_form.h) and a lazy tensor per part.
//
//   NPUBANK_ASSIGN_OR_RETURN(StoredWeight stored, model->Stored("model.layers.0.mlp.up_proj.weight"));
//   NPUBANK_ASSIGN_OR_RETURN(LazyTensor numbers, Dequantized(stored));   // F32[N,K], one tensor
//   NPUBANK_ASSIGN_OR_RETURN(StoredWeight planes, Packed(stored));       // U4[N,K], F16[N,K/g], ...
//
// What a network takes is either: the parts as they are, planes, or the numbers. Parts of blocks and
// words are as stored, so nothing is transformed and their pages can be imported.
//
// Packed changes no value: w is the same F32 whichever way it is decoded.
//   Q4_0            I4 numbers less 8, F16 scales           Q8_0   I8 numbers, F16 scales
//   Q4_1            U4 numbers, F16 scales and minima
//   GPTQ, AWQ       U4 or U8 numbers [N, K], the scales' type [N, K/g], zero points as the numbers [N, K/g]
//   rows of words   I4 or I8 numbers [N, K], scales as they are
// Other blocks have numbers that no plane holds exactly and stay blocks, words whose groups are listed have
// groups that no plane has and stay words; what is plain or in planes stays as it is.
//
// Values. Threads: pure. Cost: no byte of a weight is read. Errors: those of LazyTensor's operations.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_STORED_WEIGHT_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_STORED_WEIGHT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/weight_form.h"

namespace npubank {

struct StoredWeight {
  WeightForm form;
  std::vector<LazyTensor> parts;  // in the order of form.Parts()

  // The type of the numbers (WeightForm::Numbers): rows first, or not.
  absl::StatusOr<TensorType> Numbers() const;
};

// The numbers as one tensor [N, K]: as it is if plain, else F32.
absl::StatusOr<LazyTensor> Dequantized(const StoredWeight& stored);
absl::StatusOr<StoredWeight> Packed(const StoredWeight& stored);
// Rows [first, first + count) of the numbers [N, K], in the same form: each part in turn. InvalidArgument where they
// are no whole words of GPTQ's or AWQ's.
absl::StatusOr<StoredWeight> Rows(const StoredWeight& stored, int64_t first, int64_t count);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_STORED_WEIGHT_H_
