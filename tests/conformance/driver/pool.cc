#include "npubank/tests/conformance/driver/pool.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace npubank {
namespace {

constexpr size_t kTile = 65536;

}  // namespace

DriverPool::DriverPool(ze_context_handle_t context, ze_device_handle_t device,
                       ze_driver_handle_t driver)
    : context_(context), driver_(driver) {
  Add(typeid(ze_driver_handle_t), reinterpret_cast<uint64_t>(driver));
  Add(typeid(ze_device_handle_t), reinterpret_cast<uint64_t>(device));
  const ze_context_desc_t desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  ze_context_handle_t made = nullptr;
  EXPECT_EQ(zeContextCreate(driver, &desc, &made), ZE_RESULT_SUCCESS);
  Add(typeid(ze_context_handle_t), reinterpret_cast<uint64_t>(made));
}

std::vector<uint64_t> DriverPool::All(std::type_index kind) const {
  MutexLock lock(mutex_);
  const auto found = handles_.find(kind);
  return found == handles_.end() ? std::vector<uint64_t>() : found->second;
}

uint64_t DriverPool::Any(std::type_index kind, uint64_t chance) const {
  MutexLock lock(mutex_);
  const auto found = handles_.find(kind);
  if (found == handles_.end()) return 0;
  // The latest are the likeliest to be alive.
  const std::vector<uint64_t>& handles = found->second;
  const size_t recent = std::min<size_t>(handles.size(), chance % 4 == 0 ? handles.size() : 4);
  return handles[handles.size() - 1 - (chance >> 8) % recent];
}

uint64_t DriverPool::AnyOfAll(uint64_t chance) const {
  MutexLock lock(mutex_);
  auto kind = handles_.begin();
  std::advance(kind, static_cast<ptrdiff_t>(chance % handles_.size()));
  return kind->second[(chance >> 8) % kind->second.size()];
}

bool DriverPool::Knows(std::type_index kind, uint64_t handle) const {
  const std::vector<uint64_t> handles = All(kind);
  return std::find(handles.begin(), handles.end(), handle) != handles.end();
}

void DriverPool::SignalEvents() const {
  for (const uint64_t event : All(typeid(ze_event_handle_t)))
    zeEventHostSignal(reinterpret_cast<ze_event_handle_t>(event));
}

void DriverPool::Add(std::type_index kind, uint64_t handle) {
  MutexLock lock(mutex_);
  std::vector<uint64_t>& handles = handles_[kind];
  if (std::find(handles.begin(), handles.end(), handle) == handles.end()) handles.push_back(handle);
}

// Many are destroyed already; those say so.
template <class Handle, class Destroy>
void DriverPool::DestroyKind(Destroy destroy) {
  for (const uint64_t handle : All(typeid(Handle))) destroy(reinterpret_cast<Handle>(handle));
}

void DriverPool::DestroyAll() {
  std::vector<ze_context_handle_t> contexts = {context_};
  DestroyKind<ze_context_handle_t>([&](auto context) { contexts.push_back(context); });
  DestroyKind<ze_command_queue_handle_t>(
      [](auto queue) { zeCommandQueueSynchronize(queue, UINT64_MAX); });
  DestroyKind<ze_command_list_handle_t>([](auto list) { zeCommandListDestroy(list); });
  DestroyKind<ze_fence_handle_t>([](auto fence) { zeFenceDestroy(fence); });
  DestroyKind<ze_command_queue_handle_t>([](auto queue) { zeCommandQueueDestroy(queue); });
  DestroyKind<ze_event_handle_t>([](auto event) { zeEventDestroy(event); });
  DestroyKind<ze_event_pool_handle_t>([](auto pool) { zeEventPoolDestroy(pool); });
  for (const ze_context_handle_t context : contexts) {
    DestroyKind<ze_physical_mem_handle_t>(
        [&](auto memory) { zePhysicalMemDestroy(context, memory); });
    DestroyKind<void*>([&](auto memory) {
      // A reservation is of one tile: the only size among the numbers that can be.
      zeVirtualMemUnmap(context, memory, kTile);
      zeVirtualMemFree(context, memory, kTile);
      zeMemFree(context, memory);
    });
  }
  DestroyKind<ze_context_handle_t>([](auto context) { zeContextDestroy(context); });
}

}  // namespace npubank
