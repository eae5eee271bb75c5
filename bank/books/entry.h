// Entry: a tensor the bank knows, with OwnerRecord, who owns tensors, and Flight, an evaluation under
// way. They are what the books (books.h) are made of: plain data, guarded by the books' mutex.
#ifndef NPUBANK_BANK_BOOKS_ENTRY_H_
#define NPUBANK_BANK_BOOKS_ENTRY_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "npubank/bank/adopted_tensor.h"
#include "npubank/bank/books/residency.h"
#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

struct Entry;

// A tensor's bytes in host memory.
using HostCopy = std::shared_ptr<const std::byte[]>;

// Kept by who evaluates, the waiters and the entry.
struct Flight {
  explicit Flight(const MemoryHints& asked) : hints(asked) {}

  const MemoryHints hints;  // where it is being put
  // Who evaluates, and would wait for itself if it wanted the tensor meanwhile.
  const std::thread::id evaluator = std::this_thread::get_id();
  CondVar done;
  bool finished = false;
  absl::Status status;
  // Nobody owns the tensor any more. Read without the mutex.
  std::atomic<bool> abandoned{false};
  // Who waits for it. Read without the mutex.
  std::atomic<int> waiters{0};
};

struct OwnerRecord {
  uint64_t id = 0;
  std::string name;
  std::shared_ptr<const SourceIndex> index;  // or null
  bool asleep = false;
  // While it is being loaded it is awake, so that nothing of it is evicted; the first load that
  // succeeds makes that final, and when all have failed it sleeps again.
  bool waking = false;          // it slept, and no load has succeeded yet
  uint64_t loads = 0;           // under way
  std::vector<Entry*> tensors;  // in registration order, each once
};

// One owner of a tensor, and how that owner brings it back after an eviction; empty: not at all.
struct Ownership {
  const OwnerRecord* owner = nullptr;
  Description way_back;
  MemoryHints hints;
};

// Where a tensor's bytes on the device came from.
enum class Origin : uint8_t {
  kStored,      // copied or imported as they are in the checkpoint, or from a host copy
  kMisaligned,  // copied as they are, only because they do not lie where the device wants arguments
  kTransformed,  // computed from the source
  kCache,        // computed by an earlier evaluation
  kService,      // the pages of another bank, which serves several processes (upstream.h)
  kAdopted,  // computed by an earlier process, whose memory this one was handed (adopted_tensor.h)
};
// "stored", "misaligned", "transformed", "cache", "service", "adopted"
absl::string_view OriginName(Origin origin);

struct Entry {
  explicit Entry(const LazyTensor& tensor)
      : uid(tensor.uid()),
        digest(tensor.digest()),
        stamp(tensor.stamp()),
        type(tensor.type()),
        recipe(tensor.recipe()),
        handle(tensor) {}

  explicit Entry(const AdoptedTensor& tensor)
      : uid(Uid::Of(tensor.digest)),
        digest(tensor.digest),
        stamp(tensor.stamp),
        type(tensor.type),
        name(tensor.name),
        origin(Origin::kAdopted) {}

  // These never change: no lock is needed to read them.
  const Uid uid;
  const Digest digest;
  const Digest stamp;  // of the sources it was registered with
  const TensorType type;
  std::string name;         // the first it was registered under
  std::string description;  // of its recipe

  uint64_t sequence = 0;  // registration order
  Residency state = Residency::kRegistered;
  // Until published; of what has left the device, a later registration's until it is back. `handle`
  // shares its state with copies that the submodel kept; `recipe` is the bank's own, so that a hit
  // which detaches one of those copies does not take the recipe away.
  RecipePtr recipe;
  std::optional<LazyTensor> handle;
  absl::Status failure;
  std::shared_ptr<Flight> flight;            // while it is being evaluated
  std::shared_ptr<DeviceAllocation> memory;  // null for a tensor of 0 bytes
  uint64_t pool = 0;                         // that the memory was asked for in; 0: in any
  std::vector<Ownership> owners;
  uint64_t leases = 0;
  uint64_t hits = 0;
  double evaluation_seconds = 0;
  // Of the bytes that are, or were last, on the device.
  Origin origin = Origin::kStored;
  uint64_t stored_bytes = 0;
  uint64_t last_used = 0;  // the books' clock at the last lease
  // When nobody owned or leased it any more, for the last time.
  std::chrono::steady_clock::time_point idle_since = std::chrono::steady_clock::now();
  // A way back after eviction: the bytes a sleeper kept, until it is on the device and an owner is
  // awake.
  HostCopy host_copy;
  std::optional<Digest> content;  // while resident
  // What it took when it was last on the device: what it will take again, as far as a plan can tell.
  uint64_t last_room = 0;

  // What all of its owners ask for together: the largest alignment, and the pool, if one names any.
  MemoryHints Hints() const;
  // Whether the memory that it has, or is getting, lies where `hints` say.
  bool LiesAs(const MemoryHints& hints) const;
  // Every owner must be able to, because any of them may be the last that is left.
  bool CanComeBack() const {
    return owners.empty() || host_copy != nullptr || CanComeBackWithoutCopy();
  }
  bool CanComeBackWithoutCopy() const;
  // Whether a registration's recipe is kept until the tensor is resident: there is no other at hand,
  // and what is being tried may fail and go. A recipe at hand is better than what a description
  // promises.
  bool WantsRecipe() const {
    return state != Residency::kResident && recipe == nullptr && host_copy == nullptr;
  }
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_ENTRY_H_
