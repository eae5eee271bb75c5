#include "npubank/runtime/software_npu/memory/allocation.h"

#include <algorithm>
#include <atomic>
#include <functional>

#include "npubank/lazy_tensor/base/align.h"

namespace npubank::software_npu {
namespace {

constexpr uint64_t kFirstDeviceAddress = uint64_t{1} << 31;
constexpr uint64_t kDevicePage = 4096;

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

uint64_t NextId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

// Addresses of the device are handed out one after the other: nobody but the host sees them.
uint64_t NextDeviceAddress(uint64_t bytes) {
  static std::atomic<uint64_t> next{kFirstDeviceAddress};
  return next.fetch_add(AlignUp(bytes, kDevicePage));
}

}  // namespace

Allocation::Allocation(std::shared_ptr<Context> context, ze_memory_type_t type, uint8_t* base,
                       uint64_t bytes, uint64_t mapped)
    : context_(std::move(context)),
      type_(type),
      base_(base),
      bytes_(bytes),
      mapped_(mapped),
      id_(NextId()),
      device_address_(NextDeviceAddress(mapped)) {}

Pins::Pins(const std::vector<Place>& places) {
  std::vector<std::shared_mutex*> mutexes;
  for (const Place& place : places) {
    if (std::shared_mutex* mutex = place.allocation->mapping_mutex()) mutexes.push_back(mutex);
  }
  // Each once and in one order: a second lock of the same one could wait behind a writer forever.
  std::sort(mutexes.begin(), mutexes.end(), std::less<>());
  mutexes.erase(std::unique(mutexes.begin(), mutexes.end()), mutexes.end());
  for (std::shared_mutex* mutex : mutexes) locks_.emplace_back(*mutex);
}

AddressMap& AddressMap::Get() {
  static auto* const map = new AddressMap;
  return *map;
}

bool AddressMap::OverlapsLocked(uint64_t begin, uint64_t bytes) const {
  const auto next = entries_.upper_bound(begin);
  if (next != entries_.end() && next->first - begin < bytes) return true;
  if (next == entries_.begin()) return false;
  const auto& [base, entry] = *std::prev(next);
  return begin - base < entry.allocation->mapped();
}

bool AddressMap::Add(std::shared_ptr<Allocation> allocation) {
  MutexLock lock(mutex_);
  const uint64_t base = AddressOf(allocation->base());
  if (OverlapsLocked(base, allocation->mapped())) return false;
  Counted counted(Counted::Kind::kAskedFor, allocation->counted(), allocation->context());
  entries_.emplace(base, Entry{std::move(allocation), std::move(counted)});
  return true;
}

std::shared_ptr<Allocation> AddressMap::Remove(const Context* context, const void* base) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(AddressOf(base));
  if (found == entries_.end() || found->second.allocation->context().get() != context) {
    return nullptr;
  }
  std::shared_ptr<Allocation> allocation = std::move(found->second.allocation);
  entries_.erase(found);
  return allocation;
}

std::optional<Place> AddressMap::Find(const Context* context, const void* pointer) const {
  const uint64_t address = AddressOf(pointer);
  MutexLock lock(mutex_);
  auto found = entries_.upper_bound(address);
  if (found == entries_.begin()) return std::nullopt;
  --found;
  const std::shared_ptr<Allocation>& allocation = found->second.allocation;
  const uint64_t offset = address - found->first;
  if (offset >= allocation->bytes() || allocation->context().get() != context) return std::nullopt;
  return Place{allocation, offset};
}

bool AddressMap::Overlaps(const void* begin, uint64_t bytes) const {
  MutexLock lock(mutex_);
  return OverlapsLocked(AddressOf(begin), bytes);
}

}  // namespace npubank::software_npu
