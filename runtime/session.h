// Session: a conversation with one model: its submodels, one key/value cache, greedy generation.
//
//   std::vector<std::string> blobs = {prefill, kvcache};  // from compiler_stub/compile.h
//   NPUBANK_ASSIGN_OR_RETURN(auto session,
//                            Session::Load(npu, bank, blobs, checkpoint->index(), {}));
//   NPUBANK_ASSIGN_OR_RETURN(absl::Span<const float> logits, session->Feed({1, 403, 407}));
//   int32_t next = Argmax(logits);
//   session->Pause();                                     // another model's turn
//
// Load registers every submodel's closures, then evaluates them: each weight once, whichever
// submodel brought it. Prepare (called by the first Feed) allocates the activation arena, which
// submodels share since only one runs at a time, and the key/value cache, which they share without
// copying. So activations come after the last weight and the peak is max(W + window, W + A).
//
// Between turns:
//                weights                     arena and calls   cache, and what was fed
//   Pause        stay, may leave for others  given back        stay
//   Sleep        leave                       given back        given back, forgotten
//   Wake, or     come back, as far as they
//   the next     left, and stay
//   Feed
//
// Weights come back through the index, which opens the model's files again, or from host copies.
//
// Feed takes any number of tokens: it runs each time the submodel with the smallest chunk that
// holds what is left, or else the largest one.
//
// Weights that are imported are the pages of a file, which others may change. Each run begins with one
// fstat per such file: one that was truncated or written to is DataLoss, naming model and file, then and
// at every later Feed, until it is what it was. Drop the session, open the checkpoint again and load that:
// it has other identities, and needs nothing of what was lost. A file that was replaced by another is no
// change: the session goes on with the one it has. Not promised: what a run computes while its file
// changes (the next one says so), and a change that leaves size and mtime as they were.
// runtime/memory/imported_files.h says more.
//
// Ownership: owns its submodels and memory. Threads: one at a time.
// Errors: InvalidArgument for submodels that do not belong together, a token outside the vocabulary
// or more tokens than the context has room for (nothing is fed then); DataLoss as above; those of the
// bank and the driver. A Wake that fails, for want of room say, leaves the session as it was.
#ifndef NPUBANK_RUNTIME_SESSION_H_
#define NPUBANK_RUNTIME_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/bank/bank.h"
#include "npubank/runtime/npu.h"
#include "npubank/runtime/submodel_group.h"

namespace npubank {

class SourceIndex;  // lazy_tensor/sources/source_index.h

// The token with the highest logit; the first of equals.
int32_t Argmax(absl::Span<const float> logits);

struct SessionOptions {
  // In front of its owners' names, "NAME/prefill"; for banks with several models.
  std::string name = {};
  LoadOptions evaluate = {};  // of the load
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Load(std::shared_ptr<Npu> npu,
                                                       std::shared_ptr<Bank> bank,
                                                       absl::Span<const std::string> blobs,
                                                       std::shared_ptr<const SourceIndex> index,
                                                       const SessionOptions& options);

  // Allocates arena, cache and the buffers to talk through: all of them, or none; wakes the session
  // first. Idempotent.
  absl::Status Prepare() { return group_->Prepare(); }
  // The logits after the last of `tokens`; valid until the next Feed, Pause or Sleep.
  absl::StatusOr<absl::Span<const float>> Feed(absl::Span<const int32_t> tokens);
  // Forgets what was fed; the cache's memory stays.
  void Rewind() { position_ = 0; }

  void Pause() { group_->Pause(); }
  absl::StatusOr<SleepReport> Sleep(const SleepOptions& options = {});
  absl::Status Wake(const LoadOptions& options = {}) { return group_->Wake(options); }

  int64_t position() const { return position_; }
  int64_t context() const { return context_; }
  absl::Span<const Submodel> submodels() const { return group_->submodels(); }
  // SubmodelGroup's.
  double wake_seconds() const { return group_->wake_seconds(); }
  // The largest of the submodels' plans.
  uint64_t arena_bytes() const { return group_->arena_bytes(); }
  uint64_t cache_bytes() const { return group_->state_bytes(); }
  // What this session holds of the DeviceMemory beside weights: arena and cache, as rounded.
  uint64_t device_bytes() const { return group_->device_bytes(); }

 private:
  Session() = default;
  // The number of the submodel to run next.
  size_t Choose(size_t tokens) const;
  absl::Status RunChunk(size_t submodel, absl::Span<const int32_t> tokens);

  int64_t context_ = 0;
  int64_t vocabulary_ = 0;
  std::vector<uint64_t> chunks_;  // by submodel
  int64_t position_ = 0;
  std::unique_ptr<SubmodelGroup> group_;
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_SESSION_H_
