// SegmentBatch: a segment while it is filled: by one large tensor, or by many small ones.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto batch, SegmentBatch::Create("small tensors", 8 << 20));
//   std::optional<uint64_t> offset = batch->Take(5000);          // none: it is full, make another
//   absl::Status written = batch->Write(*offset, bytes);
//   batch->Written();                                            // this tensor is complete, or failed
//   NPUBANK_RETURN_IF_ERROR(batch->Seal().status());             // batch->segment() is for others now
//   batch->Drop(*offset, 5000);                                  // what of it the system has back
//
// A place is taken when a tensor's bytes are there and only have to be copied, so that Seal, which
// closes the batch and waits for those who have taken a place, waits for copies and for nothing
// else: never for another's evaluation. What a tensor had goes back when it is dropped; once the
// batch is sealed, with the last of its tensors.
//
// Ownership: shared by its tensors. Threads: all methods from any; no lock is held over a system
// call. Errors: those of Segment; a Seal that failed is tried again by the next.
#ifndef NPUBANK_BANK_SERVICE_SEGMENT_BATCH_H_
#define NPUBANK_BANK_SERVICE_SEGMENT_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/service/segment.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::service {

class SegmentBatch {
 public:
  // For at most so many bytes; a first tensor that is larger has it for itself.
  static absl::StatusOr<std::shared_ptr<SegmentBatch>> Create(absl::string_view name,
                                                              uint64_t most_bytes);
  // Of a segment that an earlier process sealed, with so many tensors in it, one at least, which takes
  // `held` bytes of memory.
  static std::shared_ptr<SegmentBatch> Adopt(std::shared_ptr<Segment> segment, uint64_t tensors,
                                             uint64_t held);

  std::optional<uint64_t> Take(uint64_t bytes);
  absl::Status Write(uint64_t offset, absl::Span<const std::byte> bytes) {
    return segment_->Write(offset, bytes);
  }
  void Written();
  // Complete and unchangeable, now and for ever. No place is given out any more. Whether it was this
  // call that sealed it.
  absl::StatusOr<bool> Seal();
  struct Dropped {
    uint64_t bytes = 0;  // of memory that nobody in this process wants any more
    bool last = false;   // no tensor is left: let go of the batch, and its memory is free
  };
  // Of a place that was taken: after Written, or before it when writing failed.
  Dropped Drop(uint64_t offset, uint64_t bytes);

  const std::shared_ptr<Segment>& segment() const { return segment_; }
  uint64_t tensors() const {
    MutexLock lock(mutex_);
    return tensors_;
  }

 private:
  SegmentBatch(std::shared_ptr<Segment> segment, uint64_t most_bytes)
      : segment_(std::move(segment)), most_bytes_(most_bytes) {}
  // Waits until nobody changes the segment, and keeps others from it.
  bool BeginSeal();

  const std::shared_ptr<Segment> segment_;
  const uint64_t most_bytes_;
  mutable Mutex mutex_;
  CondVar quiet_;
  uint64_t end_ ABSL_GUARDED_BY(mutex_) = 0;       // where the next place begins
  uint64_t held_ ABSL_GUARDED_BY(mutex_) = 0;      // of places that were not given back
  uint64_t tensors_ ABSL_GUARDED_BY(mutex_) = 0;   // that have a place
  uint64_t changing_ ABSL_GUARDED_BY(mutex_) = 0;  // writes and returns under way
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool sealing_ ABSL_GUARDED_BY(mutex_) = false;
  bool sealed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_SEGMENT_BATCH_H_
