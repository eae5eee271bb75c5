// ReadAhead: brings pages of mapped files into memory in the background.
//
//   ReadAhead read_ahead;
//   read_ahead.Add(mapping.subspan(offset, bytes));
//   read_ahead.Drop(mapping);     // before it goes
//
// One thread, started by the first Add and asleep while there is nothing to do; it goes through the
// ranges in the order in which they were added, in steps of a few MiB, beginning when nothing has been added
// for two milliseconds: while pages are brought in nobody else can map anything, and a load maps. Pages are asked for, not
// touched: bytes that a file has lost meanwhile are skipped and never raise SIGBUS. Where the system
// has no thread to give, nothing is read ahead. The destructor drops what has not been begun.
// Threads: any.
#ifndef NPUBANK_RUNTIME_MEMORY_READ_AHEAD_H_
#define NPUBANK_RUNTIME_MEMORY_READ_AHEAD_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {

class ReadAhead {
 public:
  // Asks for the pages of a step; for tests to take its place.
  using AskForPages = std::function<void(absl::Span<const std::byte> step)>;

  ReadAhead();
  explicit ReadAhead(AskForPages ask) : ask_(std::move(ask)) {}
  ~ReadAhead();

  // The bytes must stay mapped until they are dropped.
  void Add(absl::Span<const std::byte> range);
  // Forgets the ranges that begin inside `mapping`, and waits for the step that is at work there.
  void Drop(absl::Span<const std::byte> mapping);
  // Waits until all that was added is done.
  void Finish();
  // Bytes asked for so far.
  uint64_t bytes() const;
  // Bytes that have been added and not begun.
  uint64_t waiting_bytes() const;

 private:
  void Run();

  const AskForPages ask_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<absl::Span<const std::byte>> ranges_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point added_ ABSL_GUARDED_BY(mutex_);  // the last of them
  absl::Span<const std::byte> at_work_ ABSL_GUARDED_BY(mutex_);  // the step; empty between two
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_READ_AHEAD_H_
