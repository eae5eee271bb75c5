#include "npubank/bank/service/segment_batch.h"

#include <utility>

#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {

absl::StatusOr<std::shared_ptr<SegmentBatch>> SegmentBatch::Create(absl::string_view name,
                                                                   uint64_t most_bytes) {
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment, Segment::Create(name));
  return std::shared_ptr<SegmentBatch>(new SegmentBatch(std::move(segment), most_bytes));
}

std::shared_ptr<SegmentBatch> SegmentBatch::Adopt(std::shared_ptr<Segment> segment,
                                                  uint64_t tensors, uint64_t held) {
  std::shared_ptr<SegmentBatch> batch(new SegmentBatch(std::move(segment), /*most_bytes=*/0));
  MutexLock lock(batch->mutex_);
  batch->held_ = held;
  batch->tensors_ = tensors;
  batch->closed_ = true;
  batch->sealed_ = true;
  return batch;
}

std::optional<uint64_t> SegmentBatch::Take(uint64_t bytes) {
  const uint64_t rounded = AlignUp(bytes, Segment::kPage);
  MutexLock lock(mutex_);
  if (closed_ || (end_ > 0 && (end_ > most_bytes_ || rounded > most_bytes_ - end_))) {
    return std::nullopt;
  }
  const uint64_t offset = end_;
  end_ += rounded;
  held_ += rounded;
  ++tensors_;
  ++changing_;
  return offset;
}

void SegmentBatch::Written() {
  MutexLock lock(mutex_);
  if (--changing_ == 0) quiet_.NotifyAll();
}

bool SegmentBatch::BeginSeal() {
  MutexLock lock(mutex_);
  closed_ = true;
  while (changing_ > 0 || sealing_) quiet_.Wait(mutex_);
  sealing_ = !sealed_;
  return sealing_;
}

absl::StatusOr<bool> SegmentBatch::Seal() {
  if (!BeginSeal()) return false;
  uint64_t end = 0;
  {
    MutexLock lock(mutex_);
    end = end_;  // which does not move any more
  }
  const absl::Status status = segment_->Seal(end);
  MutexLock lock(mutex_);
  sealing_ = false;
  sealed_ = status.ok();
  quiet_.NotifyAll();
  NPUBANK_RETURN_IF_ERROR(status);
  return true;
}

SegmentBatch::Dropped SegmentBatch::Drop(uint64_t offset, uint64_t bytes) {
  const uint64_t rounded = AlignUp(bytes, Segment::kPage);
  {
    MutexLock lock(mutex_);
    while (sealing_) quiet_.Wait(mutex_);
    if (--tensors_ == 0) {
      closed_ = true;
      return {.bytes = std::exchange(held_, 0), .last = true};
    }
    if (sealed_) return {};
    ++changing_;
    held_ -= rounded;
  }
  const absl::Status given = segment_->GiveBack(offset, rounded);
  MutexLock lock(mutex_);
  if (--changing_ == 0) quiet_.NotifyAll();
  if (given.ok() || tensors_ == 0) return {.bytes = rounded};
  held_ += rounded;  // it goes with the last
  return {};
}

}  // namespace npubank::service
