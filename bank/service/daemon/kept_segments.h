// KeptSegments: what this daemon's clients were given, kept by its service manager for the daemon after it,
// which then transforms none of it again.
//
//   auto kept = std::make_shared<KeptSegments>(std::move(store));
//   auto memory = SharedMemory::Create({.gone = [kept](const Segment& of) { kept->Forget(of); }});
//   kept->TakeBack(std::move(descriptors_from_the_manager), *memory, *bank);   // before clients come
//   kept->Keep(published);                                // before they are handed out: it waits
//   kept->Rest();                                         // an end that was asked for
//
// In the store are the segments, "s1", "s2" and so on, and an index, "i1", of what they hold: a sealed
// segment as well, made anew when something is added. A segment is in the store, and in an index that is,
// with a barrier behind both, before a client has any of it. What was made and never handed out is not
// kept. What leaves the bank leaves the store.
//
// Only what the manager hands over is believed, and of that only what is verified: a sealed index of this
// version, segments that are sealed and as long as it says, and of each tensor the hash of its bytes.
// What is not goes back to the manager. A store that fails costs nobody a load: problems() says what is
// not kept, and it is tried again with the next load; but for one that did not answer in time, which is
// not told anything more.
//
// Ownership: keeps the store, and no segment. Threads: every method, from any; no lock is held over the
// store's calls. Cost: Keep, for what is new, a pass over its bytes and a message for each segment; else
// a look-up for each tensor. TakeBack a pass over all bytes.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_KEPT_SEGMENTS_H_
#define NPUBANK_BANK_SERVICE_DAEMON_KEPT_SEGMENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/adopted_tensor.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/service/daemon/descriptor_store.h"
#include "npubank/bank/service/daemon/kept_index.h"
#include "npubank/bank/service/segment.h"
#include "npubank/bank/service/shared_memory.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::service {

// A tensor that is about to be handed out; its segment stays for as long as the call lasts.
struct PublishedTensor {
  std::shared_ptr<const Segment> segment;  // sealed
  uint64_t offset = 0;
  AdoptedTensor tensor;
};

class KeptSegments {
 public:
  explicit KeptSegments(std::unique_ptr<DescriptorStore> store) : store_(std::move(store)) {}

  void TakeBack(std::vector<NamedDescriptor> descriptors, SharedMemory& memory, Bank& bank);
  void Keep(absl::Span<const PublishedTensor> tensors);
  // It goes back to the system.
  void Forget(const Segment& segment);
  // This process ends, and the next one has it all: nothing is taken out of the store any more.
  void Rest();

  bool Has(const Segment& segment) const;
  uint64_t adopted() const;  // tensors
  std::vector<std::string> problems() const;

 private:
  // A segment that is in the store, and what of it is in the index that is there.
  struct Kept {
    uint64_t number = 0;
    uint64_t bytes = 0;
    std::map<Digest, KeptIndex::Tensor> tensors;
  };
  class Turn;

  std::vector<const PublishedTensor*> NotKept(absl::Span<const PublishedTensor> tensors) const;
  absl::Status Store(absl::Span<const PublishedTensor* const> fresh);
  absl::Status StoreAll(absl::Span<const PublishedTensor* const> fresh,
                        std::map<uint64_t, Kept>& added);
  absl::Status StoreIndex(const std::map<uint64_t, Kept>& added);
  KeptIndex IndexWith(const std::map<uint64_t, Kept>& added) const;
  absl::StatusOr<KeptIndex> OpenIndex(std::map<std::string, FileDescriptor>& files);
  void AdoptAll(const KeptIndex& index, std::map<std::string, FileDescriptor>& files,
                SharedMemory& memory, Bank& bank);
  // The tensors are those that the index has in that segment.
  absl::Status Adopt(const KeptIndex::Segment& of,
                     absl::Span<const KeptIndex::Tensor* const> tensors, FileDescriptor file,
                     SharedMemory& memory, Bank& bank);
  // Also what could not be said before.
  void TakeOut(const std::string& name);
  void Note(std::string problem);

  const std::unique_ptr<DescriptorStore> store_;
  mutable Mutex mutex_;
  CondVar free_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // somebody stores
  bool resting_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, Kept> kept_ ABSL_GUARDED_BY(mutex_);  // by the segment's id
  std::set<std::string> owed_
      ABSL_GUARDED_BY(mutex_);  // names that the store was not told to forget
  std::vector<std::string> problems_ ABSL_GUARDED_BY(mutex_);
  uint64_t adopted_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of whose turn it is.
  uint64_t last_segment_ = 0;  // number
  uint64_t last_index_ = 0;    // number
  std::string index_;          // the name of the one in the store; empty: there is none
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_KEPT_SEGMENTS_H_
