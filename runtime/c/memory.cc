#include "absl/strings/str_cat.h"
#include "npubank/bank/host_memory.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/c/handles.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/level_zero/loader.h"
#include "npubank/runtime/memory/npu_memory.h"

using namespace npubank;
using namespace npubank::c;

namespace {

// The enumeration's value of this name; `automatic` where no name is given.
template <typename T>
absl::StatusOr<T> Named(const char* name, T automatic, std::optional<T> (*find)(absl::string_view),
                        const char* what) {
  if (name == nullptr) return automatic;
  if (const std::optional<T> found = find(name)) return *found;
  return absl::InvalidArgumentError(absl::StrCat("no ", what, " is called '", name, "'"));
}

}  // namespace

npubank_error* npubank_memory_host(const npubank_host_options* options, npubank_memory** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(const auto given, Read(options, "npubank_host_options"));
    HostMemory::Options host;
    if (given.capacity != 0) host.capacity = given.capacity;
    *out = new npubank_memory{std::make_shared<HostMemory>(host)};
    return absl::OkStatus();
  });
}

npubank_error* npubank_memory_npu(const npubank_npu_options* options, npubank_memory** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(const auto given, Read(options, "npubank_npu_options"));
    NPUBANK_ASSIGN_OR_RETURN(const auto choice, Named(given.device, level_zero::DeviceChoice::kAuto,
                                                      level_zero::DeviceChoiceFromName, "device"));
    NpuMemoryOptions memory;
    NPUBANK_ASSIGN_OR_RETURN(memory.strategy, Named(given.strategy, MemoryStrategy::kAuto,
                                                    MemoryStrategyFromName, "memory strategy"));
    if (given.argument_alignment != 0) memory.argument_alignment = given.argument_alignment;
    NPUBANK_ASSIGN_OR_RETURN(auto device, level_zero::Device::Open(choice));
    NPUBANK_ASSIGN_OR_RETURN(auto made, NpuMemory::Create(std::move(device), std::move(memory)));
    *out = new npubank_memory{std::move(made)};
    return absl::OkStatus();
  });
}

npubank_error* npubank_memory_custom(const npubank_memory_callbacks* callbacks,
                                     npubank_memory** out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{callbacks, "callbacks"}, {out, "out"}}));
    NPUBANK_ASSIGN_OR_RETURN(const auto given, Read(callbacks, "npubank_memory_callbacks"));
    NPUBANK_RETURN_IF_ERROR(Needs({{reinterpret_cast<const void*>(given.allocate), "allocate"},
                                   {reinterpret_cast<const void*>(given.release), "release"}}));
    if ((given.argument_alignment & (given.argument_alignment - 1)) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an argument_alignment of ", given.argument_alignment, ": it is a power of two"));
    }
    // The handle first: what fails after the memory is made would drop it.
    auto handle = std::make_unique<npubank_memory>();
    handle->memory = WrapMemory(given);
    *out = handle.release();
    return absl::OkStatus();
  });
}

npubank_error* npubank_memory_usage(const npubank_memory* memory, npubank_usage* out) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{memory, "memory"}, {out, "out"}}));
    const DeviceUsage usage = memory->memory->Usage();
    npubank_usage told = {};
    told.live_bytes = usage.live_bytes;
    told.peak_bytes = usage.peak_bytes;
    told.live_allocations = usage.live_allocations;
    told.imported_bytes = usage.imported_bytes;
    return Write(told, out, "npubank_usage");
  });
}

void npubank_memory_free(npubank_memory* memory) { delete memory; }
