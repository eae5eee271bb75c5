#include "npubank/runtime/software_npu/kernels/worker_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "npubank/runtime/software_npu/controls/forks.h"
#include "npubank/runtime/software_npu/controls/switches.h"

namespace npubank::software_npu {
namespace {

// About as long as waking a sleeping thread takes: operations of one function follow each other
// faster than that.
constexpr std::chrono::microseconds kSpin{40};

int ThreadCount() {
  const uint64_t wanted = GetSwitches()->threads;
  return static_cast<int>(wanted != 0 ? wanted : std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

WorkerPool& WorkerPool::Get() {
  static auto* const pool = new WorkerPool(ThreadCount() - 1);
  return *pool;
}

WorkerPool::WorkerPool(int helpers) {
  KeepAcrossForks(mutex_);
  // They live as long as the process, as the pool does. Where the system has no room for one more
  // thread, those that are there do.
  try {
    for (; helpers_ < helpers; ++helpers_) std::thread([this] { Help(); }).detach();
  } catch (const std::system_error&) {
  }
}

void WorkerPool::RunPieces(Body body, int64_t pieces) {
  for (int64_t piece = next_++; piece < pieces; piece = next_++) body(piece);
}

void WorkerPool::ForEach(int64_t pieces, Body body) {
  if (pieces <= 1 || helpers_ == 0 || busy_.exchange(true)) {
    for (int64_t piece = 0; piece < pieces; ++piece) body(piece);
    return;
  }
  {
    MutexLock lock(mutex_);
    body_ = &body;
    pieces_ = pieces;
    next_ = 0;
    ++loop_;
    changed_.NotifyAll();
  }
  RunPieces(body, pieces);
  {
    MutexLock lock(mutex_);
    body_ = nullptr;
    while (inside_ != 0) changed_.Wait(mutex_);
  }
  busy_ = false;
}

uint64_t WorkerPool::AwaitLoop(uint64_t seen) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  while (loop_ == seen && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  MutexLock lock(mutex_);
  while (loop_ == seen) changed_.Wait(mutex_);
  return loop_;
}

void WorkerPool::Help() {
  uint64_t seen = 0;
  while (true) {
    seen = AwaitLoop(seen);
    const Body* body = nullptr;
    int64_t pieces = 0;
    {
      MutexLock lock(mutex_);
      if (body_ == nullptr) continue;
      body = body_;
      pieces = pieces_;
      ++inside_;
    }
    RunPieces(*body, pieces);
    MutexLock lock(mutex_);
    --inside_;
    changed_.NotifyAll();
  }
}

}  // namespace npubank::software_npu
