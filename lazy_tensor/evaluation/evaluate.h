// Evaluate: a recipe's bytes into the caller's memory, in tiles, straight from the source.
//
//   std::vector<std::byte> out(recipe->type().bytes());
//   NPUBANK_RETURN_IF_ERROR(Evaluate(*recipe, absl::MakeSpan(out), {}));
//
// Pull-based: each output tile asks its inputs for just the elements it needs, so temporaries stay
// within `scratch_bytes` per worker whatever the tensor's size, and chains of elementwise steps
// pass over a tile once. Files are read in place, and their pages given back when it is done.
//
// Ownership: the caller owns `out`, which is only ever written (never read): write-combined device
// memory is fine. On error its contents are unspecified. Threads: any number of evaluations at
// once, also of the same recipe. Errors: InvalidArgument when `out` is not exactly the right size, and
// as `f16_must_hold` says, then with the place; DataLoss when a source changed under us; Cancelled when
// `cancelled` said so. Each names the tensor.
#ifndef NPUBANK_LAZY_TENSOR_EVALUATION_EVALUATE_H_
#define NPUBANK_LAZY_TENSOR_EVALUATION_EVALUATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace npubank {

class Recipe;   // lazy_tensor/recipe/recipe.h
class Workers;  // lazy_tensor/base/parallel.h

struct EvaluateOptions {
  Workers* workers = nullptr;        // not owned; null: inline on the calling thread
  uint64_t scratch_bytes = 4 << 20;  // per worker; at least 1 MiB
  // Give the pages that were read in place back with the tensor's last byte, or with an error.
  bool release_source_pages = true;
  // A number made F16 that F16 cannot hold is an error; otherwise F16's largest takes its place.
  bool f16_must_hold = false;
  std::function<bool()> cancelled = nullptr;  // asked between tiles, from worker threads; null: never
};

// The whole tensor. out.size() must be recipe.type().bytes().
absl::Status Evaluate(const Recipe& recipe, absl::Span<std::byte> out,
                      const EvaluateOptions& options);

// The bytes [offset, offset + out.size()) of the tensor, for uploads through a staging buffer.
// `offset` and the end must lie on element boundaries (for four-bit elements: whole bytes).
absl::Status EvaluateRange(const Recipe& recipe, uint64_t offset, absl::Span<std::byte> out,
                           const EvaluateOptions& options);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_EVALUATION_EVALUATE_H_
