#include "npubank/bank/service/huge_pages.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "npubank/bank/service/aligned_mapping.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/base/thread.h"

namespace npubank::service {
namespace {

bool Join(const Segment& segment, uint64_t offset) {
  const absl::StatusOr<AlignedMapping> stretch = AlignedMapping::Map(
      segment.descriptor(), offset, HugePages::kBytes, PROT_READ, segment.name());
  return stretch.ok() && stretch->Join();
}

void YieldToAllOthers() {
  const sched_param none = {};
  sched_setscheduler(0, SCHED_IDLE, &none);  // of this thread; refused, it costs others a little
}

}  // namespace

absl::StatusOr<std::unique_ptr<HugePages>> HugePages::Start() {
  std::unique_ptr<HugePages> made(new HugePages());
  NPUBANK_ASSIGN_OR_RETURN(made->thread_, StartThread([pages = made.get()] { pages->Run(); }));
  return made;
}

HugePages::~HugePages() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void HugePages::Add(std::shared_ptr<const Segment> segment) {
  const bool has_holes = segment->MemoryBytes().value_or(0) < segment->sealed_bytes();
  if (segment->sealed_bytes() < kBytes || has_holes) return;
  MutexLock lock(mutex_);
  if (segment->in_huge_pages()) {
    counts_.joined_bytes += segment->sealed_bytes() / kBytes * kBytes;
    return;
  }
  work_.push_back({.segment = segment, .id = segment->id()});
  changed_.NotifyAll();
}

void HugePages::Forget(const Segment& segment) {
  MutexLock lock(mutex_);
  std::erase_if(work_, [&](const Work& work) { return work.id == segment.id(); });
  while (in_hand_ == segment.id()) changed_.Wait(mutex_);
}

HugePages::Counts HugePages::counts() const {
  MutexLock lock(mutex_);
  Counts counts = counts_;
  counts.waiting = work_.size();
  return counts;
}

void HugePages::Finish() {
  MutexLock lock(mutex_);
  while (!work_.empty() || in_hand_ != 0) changed_.Wait(mutex_);
}

void HugePages::Run() {
  YieldToAllOthers();
  MutexLock lock(mutex_);
  while (!stop_) {
    if (work_.empty()) {
      changed_.Wait(mutex_);
    } else {
      JoinNext();
    }
  }
}

void HugePages::JoinNext() {
  const uint64_t offset = work_.front().offset;
  std::shared_ptr<const Segment> segment = work_.front().segment.lock();
  work_.front().offset += kBytes;
  // What is left at the end is less than a huge page.
  const bool last = segment == nullptr || segment->sealed_bytes() - offset < 2 * kBytes;
  if (last) work_.pop_front();
  if (segment != nullptr) {
    in_hand_ = segment->id();
    mutex_.Unlock();
    const bool joined = Join(*segment, offset);
    segment.reset();
    mutex_.Lock();
    in_hand_ = 0;
    (joined ? counts_.joined_bytes : counts_.refused_bytes) += kBytes;
  }
  changed_.NotifyAll();
}

}  // namespace npubank::service
