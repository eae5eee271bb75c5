// Tensor words: a lazy tensor as a manifest writes it (manifest.h has the words).
//
//   NPUBANK_ASSIGN_OR_RETURN(LazyTensor weight, TensorOfWords(json, *index, "layers.json: weight 'w0'"));
//
// Private to the manifest room. Errors: InvalidArgument or NotFound that begin with `where` and
// name the step.
#ifndef NPUBANK_RUNTIME_MANIFEST_TENSOR_WORDS_H_
#define NPUBANK_RUNTIME_MANIFEST_TENSOR_WORDS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/formats/json_fields.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

absl::StatusOr<LazyTensor> TensorOfWords(const nlohmann::json& words, const SourceIndex& index,
                                         const std::string& where);

// The "type" and "dims" of an object; its first fault is kept by `fields`, as JsonFields does.
TensorType TypeOfFields(JsonFields& fields);

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MANIFEST_TENSOR_WORDS_H_
