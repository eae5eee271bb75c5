// Workers: a bounded set of threads for loops over independent pieces.
//
//   Workers workers(2);
//   absl::Status status = workers.ForEach(tiles, [&](int64_t tile) { return Evaluate(tile); });
//
// Zero workers runs every piece inline, in order: deterministic, for tests and debugging.
// Errors: the status of the lowest failing index among the pieces that ran; after a failure no new
// piece starts. Threads: ForEach may be called from several threads at once. Pieces run on TBB.
#ifndef NPUBANK_LAZY_TENSOR_PARALLEL_H_
#define NPUBANK_LAZY_TENSOR_PARALLEL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace npubank {

class Workers {
 public:
  explicit Workers(int count);  // 0: inline
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int count() const { return count_; }
  absl::Status ForEach(int64_t pieces, absl::FunctionRef<absl::Status(int64_t)> body);

 private:
  struct Arena;
  int count_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_PARALLEL_H_
