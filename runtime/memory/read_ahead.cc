#include "npubank/runtime/memory/read_ahead.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/thread.h"

namespace npubank {
namespace {

constexpr size_t kStepBytes = 8 << 20;
constexpr uintptr_t kPage = 4096;
constexpr std::chrono::milliseconds kQuiet(2);

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;  // Linux 5.14
#endif

void AskFor(absl::Span<const std::byte> range) {
  const auto address = reinterpret_cast<uintptr_t>(range.data());
  const uintptr_t begin = address / kPage * kPage;
  auto* const pages = reinterpret_cast<void*>(begin);
  const size_t bytes = address + range.size() - begin;
  if (madvise(pages, bytes, MADV_POPULATE_READ) != 0)
    (void)madvise(pages, bytes, MADV_WILLNEED);  // an older kernel, or bytes the file has lost
}

}  // namespace

ReadAhead::ReadAhead() : ReadAhead(AskFor) {}

ReadAhead::~ReadAhead() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::Add(absl::Span<const std::byte> range) {
  if (range.empty()) return;
  MutexLock lock(mutex_);
  if (!thread_.joinable()) {
    absl::StatusOr<std::thread> thread = StartThread([this] { Run(); });
    if (!thread.ok()) return;  // the pages come when they are asked for
    thread_ = *std::move(thread);
  }
  added_ = std::chrono::steady_clock::now();
  const bool asleep = ranges_.empty();
  ranges_.push_back(range);
  if (asleep) changed_.NotifyAll();
}

void ReadAhead::Drop(absl::Span<const std::byte> mapping) {
  const std::less<const std::byte*> before;
  const auto inside = [&](absl::Span<const std::byte> range) {
    return !before(range.data(), mapping.data()) &&
           before(range.data(), mapping.data() + mapping.size());
  };
  MutexLock lock(mutex_);
  ranges_.erase(std::remove_if(ranges_.begin(), ranges_.end(), inside), ranges_.end());
  while (inside(at_work_)) changed_.Wait(mutex_);
}

void ReadAhead::Finish() {
  MutexLock lock(mutex_);
  while (!at_work_.empty() || !ranges_.empty()) changed_.Wait(mutex_);
}

uint64_t ReadAhead::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

uint64_t ReadAhead::waiting_bytes() const {
  uint64_t bytes = 0;
  MutexLock lock(mutex_);
  for (const absl::Span<const std::byte> range : ranges_) bytes += range.size();
  return bytes;
}

void ReadAhead::Run() {
  MutexLock lock(mutex_);
  while (true) {
    while (ranges_.empty() && !stopping_) changed_.Wait(mutex_);
    if (stopping_) return;
    // Whoever maps the next file waits for a step: the system changes a process's addresses one at a time.
    if (const auto quiet = added_ + kQuiet; std::chrono::steady_clock::now() < quiet) {
      changed_.WaitUntil(mutex_, quiet);
      continue;
    }
    absl::Span<const std::byte>& front = ranges_.front();
    const absl::Span<const std::byte> step = front.subspan(0, kStepBytes);
    front.remove_prefix(step.size());
    if (front.empty()) ranges_.pop_front();
    at_work_ = step;
    mutex_.Unlock();
    ask_(step);
    mutex_.Lock();
    at_work_ = {};
    bytes_ += step.size();
    changed_.NotifyAll();
  }
}

}  // namespace npubank
