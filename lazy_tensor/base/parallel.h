// Workers: who runs the independent pieces of a loop, side by side.
//
//   ThreadWorkers workers(2);
//   absl::Status status = workers.ForEach(tiles, [&](int64_t tile) { return Evaluate(tile); });
//   status = ForEach(options.workers, tiles, ...);  // null: inline
//
// ThreadWorkers has threads of its own. An embedder that has a pool already gives that:
//
//   class PoolWorkers final : public Workers {
//     int count() const override { return pool_.size() + 1; }
//     void Run(int64_t times, absl::FunctionRef<void()> work) override {
//       pool_.ParallelFor(times, [&](size_t) { work(); });
//     }
//   };
//
// Whoever runs them, pieces are handed out in order, one at a time, to whoever is free.
// Errors: the status of the lowest failing index among the pieces that ran; after a failure no new
// piece starts. Internal when Run came back without having called its work.
// Threads: ForEach may be called from several threads at once and from within a piece.
#ifndef NPUBANK_LAZY_TENSOR_BASE_PARALLEL_H_
#define NPUBANK_LAZY_TENSOR_BASE_PARALLEL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace npubank {

class Workers {
 public:
  virtual ~Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // How many pieces may run at once, the caller's included; below 2: the caller's alone.
  virtual int count() const = 0;

  absl::Status ForEach(int64_t pieces, absl::FunctionRef<absl::Status(int64_t)> body);

 protected:
  Workers() = default;

 private:
  // Calls `work` at least once and at most `times` times (at least 2), on the calling thread or any
  // other, at once or one after the other, and returns when every call that was made has returned.
  // `work` throws nothing, and returns at once when there is nothing left to do. It may call Run.
  virtual void Run(int64_t times, absl::FunctionRef<void()> work) = 0;
};

// On `workers`, or inline, in order, where there are none.
absl::Status ForEach(Workers* workers, int64_t pieces,
                     absl::FunctionRef<absl::Status(int64_t)> body);

// A loop runs on its caller and on at most count - 1 threads, which live as long as the object.
// Zero (or one) runs every piece inline, in order: deterministic, for tests and debugging. Where
// the system has fewer threads to give, those there are, and the callers, do the work.
// Destroy it when no loop runs.
//
// Plain threads rather than a library of tasks: ThreadSanitizer sees every hand-over, so that it
// needs no suppression, under which a race inside a piece would be lost.
class ThreadWorkers final : public Workers {
 public:
  explicit ThreadWorkers(int count);
  ~ThreadWorkers() override;
  int count() const override;

 private:
  void Run(int64_t times, absl::FunctionRef<void()> work) override;

  class Pool;
  std::unique_ptr<Pool> pool_;  // null: inline
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_PARALLEL_H_
