// HugePages: makes huge pages of sealed segments that were not written as such, in the background.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto huge_pages, HugePages::Start());
//   huge_pages->Add(segment);            // and goes on
//   huge_pages->Forget(*segment);        // before its memory is to go back
//
// Shared memory comes in pages of 4096 bytes unless the administrator said otherwise, and a client
// that touches a GiB of it takes 262144 page faults. Asked for one stretch of 2 MiB at a time, through
// a read-only mapping of its own, the system joins the pages of what is sealed (MADV_COLLAPSE, since
// Linux 6.1): the first touch of a GiB then takes 4 ms and not 110. The content is copied, 0.3 to 2.2 s
// per GiB, by one thread that yields to all others. Nothing depends on its success: where the system
// refuses (an older one, no 2 MiB in one piece) the pages stay small, and `refused_bytes` counts it. A
// segment with holes is left as it is: joining would fill them with memory.
//
// Ownership: it holds no segment but for the stretch in hand. Destroyed, it ends after that stretch.
// Threads: any; no lock is held over a system call. Forget waits for the stretch in hand, about a
// millisecond. Errors: ResourceExhausted when there is no thread to be had.
#ifndef NPUBANK_BANK_SERVICE_HUGE_PAGES_H_
#define NPUBANK_BANK_SERVICE_HUGE_PAGES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "npubank/bank/service/aligned_mapping.h"
#include "npubank/bank/service/segment.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::service {

class HugePages {
 public:
  static constexpr uint64_t kBytes = AlignedMapping::kHugePage;

  struct Counts {
    uint64_t joined_bytes = 0;   // that lie in huge pages now, or did until they were freed
    uint64_t refused_bytes = 0;  // that the system left as they were
    uint64_t waiting = 0;        // segments still to be looked at
  };

  static absl::StatusOr<std::unique_ptr<HugePages>> Start();
  ~HugePages();

  void Add(std::shared_ptr<const Segment> segment);
  void Forget(const Segment& segment);
  Counts counts() const;
  // Returns when nothing is waiting.
  void Finish();

 private:
  struct Work {
    std::weak_ptr<const Segment> segment;
    uint64_t id = 0;
    uint64_t offset = 0;  // of the next stretch
  };

  HugePages() = default;
  void Run();
  void JoinNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Work> work_ ABSL_GUARDED_BY(mutex_);
  uint64_t in_hand_ ABSL_GUARDED_BY(mutex_) = 0;  // whose stretch is being joined; 0: none
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_HUGE_PAGES_H_
