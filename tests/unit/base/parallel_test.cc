#include "npubank/lazy_tensor/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/tests/support/system/no_threads.h"

namespace npubank {
namespace {

absl::Status Failure(int64_t piece) { return absl::InternalError(std::to_string(piece)); }

TEST(Workers, RunEveryPieceOnce) {
  for (int count : {0, 1, 2, 5}) {
    ThreadWorkers workers(count);
    std::vector<std::atomic<int>> runs(1000);
    EXPECT_EQ(workers.ForEach(1000,
                              [&](int64_t piece) {
                                runs[piece].fetch_add(1);
                                return absl::OkStatus();
                              }),
              absl::OkStatus());
    for (const std::atomic<int>& piece : runs) EXPECT_EQ(piece, 1);
  }
}

// Plain memory on purpose: under ThreadSanitizer this shows that the caller and the pieces are
// ordered.
TEST(Workers, WhatTheCallerWroteIsSeenByThePiecesAndTheirsByTheCaller) {
  ThreadWorkers workers(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> values(64, round);
    EXPECT_EQ(workers.ForEach(64,
                              [&](int64_t piece) {
                                values[piece] += static_cast<int>(piece);
                                return absl::OkStatus();
                              }),
              absl::OkStatus());
    for (int piece = 0; piece < 64; ++piece) ASSERT_EQ(values[piece], round + piece);
  }
}

TEST(Workers, WithoutThreadsPiecesRunInOrderOnTheCaller) {
  ThreadWorkers without_threads(0);
  for (Workers* workers : {static_cast<Workers*>(&without_threads), static_cast<Workers*>(nullptr)}) {
    SCOPED_TRACE(workers == nullptr ? "no workers" : "workers without threads");
    std::vector<int64_t> order;
    const std::thread::id caller = std::this_thread::get_id();
    EXPECT_EQ(ForEach(workers, 5,
                      [&](int64_t piece) {
                        EXPECT_EQ(std::this_thread::get_id(), caller);
                        order.push_back(piece);
                        return piece == 3 ? Failure(piece) : absl::OkStatus();
                      }),
              Failure(3));
    EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3}));
  }
}

TEST(Workers, TheLowestFailureIsReportedAndNothingStartsAfterIt) {
  ThreadWorkers workers(2);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int64_t> last{0};
    const absl::Status status = workers.ForEach(100000, [&](int64_t piece) {
      int64_t seen = last.load();
      while (piece > seen && !last.compare_exchange_weak(seen, piece)) {
      }
      return piece >= 10 ? Failure(piece) : absl::OkStatus();
    });
    EXPECT_EQ(status, Failure(10));
    EXPECT_LT(last, 100);  // at most a piece per thread was under way
  }
}

TEST(Workers, ServeSeveralCallersAtOnce) {
  ThreadWorkers workers(2);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        std::atomic<int> ran{0};
        EXPECT_EQ(workers.ForEach(20,
                                  [&](int64_t) {
                                    ran.fetch_add(1);
                                    return absl::OkStatus();
                                  }),
                  absl::OkStatus());
        EXPECT_EQ(ran, 20);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Each of as many pieces as there are workers waits until all have started.
TEST(Workers, AsManyPiecesRunAtOnceAsThereAreWorkers) {
  constexpr int kCount = 4;
  ThreadWorkers workers(kCount);
  Mutex mutex;
  CondVar all_started;
  for (int round = 0; round < 20; ++round) {
    int started = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    EXPECT_EQ(workers.ForEach(kCount,
                              [&](int64_t piece) {
                                MutexLock lock(mutex);
                                if (++started == kCount) all_started.NotifyAll();
                                while (started < kCount) {
                                  if (!all_started.WaitUntil(mutex, deadline)) {
                                    return Failure(piece);
                                  }
                                }
                                return absl::OkStatus();
                              }),
              absl::OkStatus());
  }
}

TEST(Workers, APieceMayRunALoopOfItsOwn) {
  ThreadWorkers workers(3);
  std::atomic<int> ran{0};
  EXPECT_EQ(workers.ForEach(10,
                            [&](int64_t) {
                              return workers.ForEach(10, [&](int64_t piece) {
                                ran.fetch_add(1);
                                return piece == 100 ? Failure(piece) : absl::OkStatus();
                              });
                            }),
            absl::OkStatus());
  EXPECT_EQ(ran, 100);
}

TEST(Workers, NoPiecesAreNoWork) {
  ThreadWorkers workers(2);
  EXPECT_EQ(workers.ForEach(0, [](int64_t piece) { return Failure(piece); }), absl::OkStatus());
}

// As an embedder's own pool may be: it runs what it is given when and where it likes.
class BorrowedWorkers final : public Workers {
 public:
  explicit BorrowedWorkers(int calls) : calls_(calls) {}
  int count() const override { return 4; }
  int64_t asked_for() const { return asked_for_; }

 private:
  void Run(int64_t times, absl::FunctionRef<void()> work) override {
    asked_for_ = times;
    for (int i = 0; i < calls_; ++i) std::thread([&] { work(); }).join();
  }

  const int calls_;
  int64_t asked_for_ = 0;
};

TEST(Workers, AnEmbeddersOwnRunEveryPieceOnceHoweverOftenTheyAreCalled) {
  for (int calls : {1, 2, 4}) {
    BorrowedWorkers workers(calls);
    std::vector<int> runs(100);
    EXPECT_EQ(workers.ForEach(100,
                              [&](int64_t piece) {
                                ++runs[piece];
                                return absl::OkStatus();
                              }),
              absl::OkStatus());
    EXPECT_EQ(runs, std::vector<int>(100, 1));
    EXPECT_EQ(workers.asked_for(), 4) << "no more than may run at once";
  }
}

TEST(Workers, AnEmbeddersOwnThatForgetTheLoopAreFoundOut) {
  BorrowedWorkers workers(/*calls=*/0);
  const absl::Status status = workers.ForEach(100, [](int64_t) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
}

TEST(Workers, WhereTheSystemHasNoThreadsTheCallerDoesTheWork) {
  const NoThreads none;
  ThreadWorkers workers(4);
  EXPECT_EQ(workers.count(), 1);
  int64_t sum = 0;
  const std::thread::id caller = std::this_thread::get_id();
  EXPECT_EQ(workers.ForEach(100,
                            [&](int64_t piece) {
                              EXPECT_EQ(std::this_thread::get_id(), caller);
                              sum += piece;
                              return absl::OkStatus();
                            }),
            absl::OkStatus());
  EXPECT_EQ(sum, 4950);
}

}  // namespace
}  // namespace npubank
