// Handles: the objects behind Level Zero handles, and which of them are alive.
//
//   *out = Live<Fence>().Add(std::make_shared<Fence>(...));      // create
//   std::shared_ptr<Fence> fence = Live<Fence>().Find(handle);   // null: never was, or destroyed
//   Live<Fence>().Remove(handle);                                // destroy
//
// A handle is no address but a kind, the number of a slot and how often the slot was used before, so
// a stale, foreign or wild one is an error: it never crashes and never reaches another object, even
// one that took the place of what it stood for. What is at work keeps its objects through the
// shared_ptr. (Newer loaders read the memory behind a handle only of drivers that offer them
// dispatch tables, which this one does not.)
// In a child of fork, handles of the parent are unknown but for destroying; contexts and physical
// memory, which have neither threads nor locks, are usable.
// Threads: any. Cost: one uncontended lock and an index.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_HANDLES_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_HANDLES_H_

#include <level_zero/ze_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/software_npu/controls/forks.h"

namespace npubank::software_npu {

// What a loader's wrapper holds: with several drivers the loader gives the host objects of its own
// that start with the driver's handle. Extension functions, which bypass the loader, see those.
// Null when the memory cannot be read. Never faults.
const void* FirstWordOf(const void* handle);

enum class HandleKind : uint64_t {
  kContext = 1,
  kQueue,
  kCommandList,
  kFence,
  kEventPool,
  kEvent,
  kGraph,
  kBuildLog,
  kPhysicalMemory,
};

// The bits of a handle. The highest ones make it no address that any process can have.
struct HandleBits {
  static constexpr int kZeroBits = 4;  // so that the value beside a handle is none
  static constexpr int kSlotBits = 20;
  static constexpr int kUseBits = 32;
  static constexpr uint64_t kMark = 4;
  static constexpr uint64_t kMostSlots = uint64_t{1} << kSlotBits;
  static constexpr uint64_t kMostUses = uint64_t{1} << kUseBits;

  HandleKind kind;
  uint64_t uses;
  uint64_t slot;

  uint64_t Word() const {
    return kMark << 60 | static_cast<uint64_t>(kind) << (kZeroBits + kSlotBits + kUseBits) |
           uses << (kZeroBits + kSlotBits) | slot << kZeroBits;
  }
  static uint64_t SlotOf(uint64_t word) { return (word >> kZeroBits) % kMostSlots; }
};

template <class T>
class HandleTable {
 public:
  using Handle = typename T::Handle;

  HandleTable() { KeepAcrossForks(mutex_); }

  Handle Add(std::shared_ptr<T> object) {
    MutexLock lock(mutex_);
    if (free_.empty()) Grow();
    const uint64_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.object = std::move(object);
    slot.born = ForkGeneration();
    return reinterpret_cast<Handle>(HandleBits{T::kHandleKind, slot.uses, index}.Word());
  }

  std::shared_ptr<T> Find(Handle handle) const {
    MutexLock lock(mutex_);
    const Slot* const slot = Look(handle);
    return slot != nullptr && IsUsable(*slot) ? slot->object : nullptr;
  }

  // Find, for handles that came past the loader.
  std::shared_ptr<T> FindUnwrapped(Handle handle) const {
    if (handle == nullptr) return nullptr;
    std::shared_ptr<T> object = Find(handle);
    if (object != nullptr) return object;
    return Find(reinterpret_cast<Handle>(const_cast<void*>(FirstWordOf(handle))));
  }

  std::shared_ptr<T> Remove(Handle handle) {
    MutexLock lock(mutex_);
    const Slot* const slot = Look(handle);
    return slot != nullptr && IsUsable(*slot) ? Take(handle) : nullptr;
  }

  // Remove for what a parent of this process made: null when it is not of that sort. The object is
  // never freed, because its locks may be held by threads that are not here.
  T* Disown(Handle handle) {
    MutexLock lock(mutex_);
    const Slot* const slot = Look(handle);
    if (slot == nullptr || IsUsable(*slot)) return nullptr;
    auto* const kept = new std::shared_ptr<T>(slot->object);
    Take(handle);
    return kept->get();
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return slots_.size() - free_.size() - retired_;
  }

 private:
  struct Slot {
    std::shared_ptr<T> object;
    uint64_t uses = 0;
    uint64_t born = 0;
  };

  static uint64_t WordOf(Handle handle) { return reinterpret_cast<uint64_t>(handle); }

  void Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (slots_.size() == HandleBits::kMostSlots) throw std::bad_alloc();
    slots_.emplace_back();
    free_.reserve(slots_.capacity());  // so that removing cannot fail
    free_.push_back(slots_.size() - 1);
  }

  const Slot* Look(Handle handle) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t index = HandleBits::SlotOf(WordOf(handle));
    if (index >= slots_.size() || slots_[index].object == nullptr) return nullptr;
    const uint64_t word = HandleBits{T::kHandleKind, slots_[index].uses, index}.Word();
    return word == WordOf(handle) ? &slots_[index] : nullptr;
  }

  // Takes the object out of a slot that Look has found.
  std::shared_ptr<T> Take(Handle handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t index = HandleBits::SlotOf(WordOf(handle));
    Slot& slot = slots_[index];
    if (++slot.uses < HandleBits::kMostUses) {
      free_.push_back(index);
    } else {
      ++retired_;  // its numbers are used up
    }
    return std::move(slot.object);
  }

  static bool IsUsable(const Slot& slot) {
    return T::kUsableAfterFork || slot.born == ForkGeneration();
  }

  mutable Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> free_ ABSL_GUARDED_BY(mutex_);
  size_t retired_ ABSL_GUARDED_BY(mutex_) = 0;
};

template <class T>
HandleTable<T>& Live() {
  static auto* const table = new HandleTable<T>;
  return *table;
}

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_HANDLES_H_
