#include "lazy_tensor/parallel.h"

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>

#include "lazy_tensor/mutex.h"

namespace npubank {
namespace {

// One ForEach: pieces are handed out in order from a counter, so the pieces that ran are exactly
// [0, next), and the lowest failure among them is found whatever the threads' timing.
class Loop {
 public:
  Loop(int64_t pieces, absl::FunctionRef<absl::Status(int64_t)> body)
      : pieces_(pieces), body_(body) {}

  // Takes pieces until there are none, or one has failed.
  void Work() {
    while (!failed_.load(std::memory_order_relaxed)) {
      const int64_t piece = next_.fetch_add(1, std::memory_order_relaxed);
      if (piece >= pieces_) return;
      absl::Status status = body_(piece);
      if (!status.ok()) Fail(piece, std::move(status));
    }
  }

  absl::Status TakeStatus() {
    MutexLock lock(mutex_);
    return std::move(status_);
  }

 private:
  void Fail(int64_t piece, absl::Status status) {
    MutexLock lock(mutex_);
    if (status_.ok() || piece < failed_piece_) {
      status_ = std::move(status);
      failed_piece_ = piece;
    }
    failed_.store(true, std::memory_order_relaxed);
  }

  const int64_t pieces_;
  const absl::FunctionRef<absl::Status(int64_t)> body_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t failed_piece_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

struct Workers::Arena {
  // More threads than processors would only be refused by TBB, with a warning.
  explicit Arena(int count) : arena(std::min(count, tbb::info::default_concurrency())) {}
  tbb::task_arena arena;
};

Workers::Workers(int count)
    : count_(std::max(count, 0)), arena_(count_ > 0 ? std::make_unique<Arena>(count_) : nullptr) {}

Workers::~Workers() = default;

absl::Status Workers::ForEach(int64_t pieces, absl::FunctionRef<absl::Status(int64_t)> body) {
  Loop loop(pieces, body);
  const auto threads = static_cast<int>(std::min<int64_t>(count_, pieces));
  if (threads <= 1) {
    loop.Work();
    return loop.TakeStatus();
  }
  // TBB orders its tasks with atomics of its own, but the distribution's TBB is not built with
  // ThreadSanitizer, which then sees neither that a task starts after it was made nor that ForEach
  // returns after its tasks. These two variables say the same in code that it does see: what the
  // caller wrote before is visible to every piece, and what the pieces wrote is visible to the
  // caller after.
  std::atomic<int> started{0};
  std::atomic<int> finished{0};
  started.store(1, std::memory_order_release);
  arena_->arena.execute([&] {
    tbb::parallel_for(
        0, threads,
        [&](int) {
          started.load(std::memory_order_acquire);
          loop.Work();
          finished.fetch_add(1, std::memory_order_acq_rel);
        },
        tbb::simple_partitioner());
  });
  finished.load(std::memory_order_acquire);
  return loop.TakeStatus();
}

}  // namespace npubank
