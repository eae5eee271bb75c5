#include "npubank/lazy_tensor/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"

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

// Threads that help callers with their loops. A caller works on its own loop too and needs no helper
// to finish, so loops may be started from several threads at once and from within pieces.
class Workers::Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 0; i < threads; ++i) {
      try {
        threads_.emplace_back([this] { Help(); });
      } catch (const std::system_error&) {
        return;  // the system has no more threads: those there are, and the callers, do the work
      }
    }
  }

  ~Pool() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    offered_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }

  // Runs the loop on the caller and at most `helpers` threads.
  void Run(Loop& loop, int helpers) {
    Offer offer{&loop, helpers, 0};
    {
      MutexLock lock(mutex_);
      offers_.push_back(&offer);
    }
    offered_.NotifyAll();
    loop.Work();
    MutexLock lock(mutex_);
    offers_.remove(&offer);
    while (offer.helping > 0) done_.Wait(mutex_);
  }

 private:
  struct Offer {
    Loop* loop;
    int open;     // how many more may help
    int helping;  // how many do now
  };

  void Help() {
    MutexLock lock(mutex_);
    while (true) {
      while (offers_.empty() && !stopping_) offered_.Wait(mutex_);
      if (stopping_) return;
      Offer& offer = *offers_.front();
      if (--offer.open == 0) offers_.pop_front();
      ++offer.helping;
      mutex_.Unlock();
      offer.loop->Work();
      mutex_.Lock();
      if (--offer.helping == 0) done_.NotifyAll();
    }
  }

  Mutex mutex_;
  CondVar offered_;
  CondVar done_;
  std::list<Offer*> offers_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use what is above
};

Workers::Workers(int count)
    : count_(std::max(count, 0)),
      pool_(count_ > 1 ? std::make_unique<Pool>(count_ - 1) : nullptr) {}

Workers::~Workers() = default;

absl::Status Workers::ForEach(int64_t pieces, absl::FunctionRef<absl::Status(int64_t)> body) {
  Loop loop(pieces, body);
  const auto threads = static_cast<int>(std::min<int64_t>(count_, pieces));
  if (threads > 1) {
    pool_->Run(loop, threads - 1);
  } else {
    loop.Work();
  }
  return loop.TakeStatus();
}

}  // namespace npubank
