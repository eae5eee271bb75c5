// Workers: a bounded set of threads for loops over independent pieces.
//
//   Workers workers(2);
//   absl::Status status = workers.ForEach(tiles, [&](int64_t tile) { return Evaluate(tile); });
//
// A loop runs on its caller and on at most count - 1 threads, which live as long as the Workers.
// Zero workers (or one) runs every piece inline, in order: deterministic, for tests and debugging.
// Errors: the status of the lowest failing index among the pieces that ran; after a failure no new
// piece starts. Threads: ForEach may be called from several threads at once and from within a
// piece. Destroy the Workers when no loop runs.
//
// Plain threads rather than a library of tasks: ThreadSanitizer sees every hand-over, so that it
// needs no suppression, under which a race inside a piece would be lost.
#ifndef NPUBANK_LAZY_TENSOR_BASE_PARALLEL_H_
#define NPUBANK_LAZY_TENSOR_BASE_PARALLEL_H_

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
  class Pool;
  int count_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_PARALLEL_H_
