#include "npubank/lazy_tensor/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/base/thread.h"

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

  // Nobody works any more.
  absl::Status TakeStatus() {
    MutexLock lock(mutex_);
    if (!status_.ok() || next_.load(std::memory_order_relaxed) >= pieces_) {
      return std::move(status_);
    }
    return absl::InternalError("the workers did not run the loop that they were given");
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

absl::Status Workers::ForEach(int64_t pieces, absl::FunctionRef<absl::Status(int64_t)> body) {
  Loop loop(pieces, body);
  const int64_t times = std::min<int64_t>(count(), pieces);
  if (times > 1) {
    Run(times, [&loop] { loop.Work(); });
  } else {
    loop.Work();
  }
  return loop.TakeStatus();
}

absl::Status ForEach(Workers* workers, int64_t pieces,
                     absl::FunctionRef<absl::Status(int64_t)> body) {
  if (workers != nullptr) return workers->ForEach(pieces, body);
  Loop loop(pieces, body);
  loop.Work();
  return loop.TakeStatus();
}

// Threads that help callers with their loops. A caller works on its own loop too and needs no helper
// to finish, so loops may be started from several threads at once and from within pieces.
class ThreadWorkers::Pool {
 public:
  // As many of the threads as the system gives.
  explicit Pool(int threads) {
    for (int i = 0; i < threads; ++i) {
      absl::StatusOr<std::thread> thread = StartThread([this] { Help(); });
      if (!thread.ok()) return;
      threads_.push_back(*std::move(thread));
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

  int threads() const { return static_cast<int>(threads_.size()); }

  // Runs the work on the caller and at most `helpers` threads.
  void Run(int64_t helpers, absl::FunctionRef<void()> work) {
    Offer offer{work, helpers, 0};
    {
      MutexLock lock(mutex_);
      offers_.push_back(&offer);
    }
    offered_.NotifyAll();
    work();
    MutexLock lock(mutex_);
    offers_.remove(&offer);
    while (offer.helping > 0) done_.Wait(mutex_);
  }

 private:
  struct Offer {
    absl::FunctionRef<void()> work;
    int64_t open;  // how many more may help
    int helping;   // how many do now
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
      offer.work();
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

ThreadWorkers::ThreadWorkers(int count)
    : pool_(count > 1 ? std::make_unique<Pool>(count - 1) : nullptr) {}

ThreadWorkers::~ThreadWorkers() = default;

int ThreadWorkers::count() const { return pool_ == nullptr ? 1 : pool_->threads() + 1; }

void ThreadWorkers::Run(int64_t times, absl::FunctionRef<void()> work) {
  pool_->Run(times - 1, work);
}

}  // namespace npubank
