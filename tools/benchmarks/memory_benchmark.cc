// memory-benchmark: replays allocation traces on each strategy of device memory.
//
//   memory-benchmark trace.txt...
//
// Prints, per trace and strategy, what was reserved of the driver at the peak for what was live at
// the peak, and the mean time of an allocation or a free. Runs on the software NPU with virtual
// memory switched on, unless the environment says otherwise; nothing is written to the memory.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/npu_memory.h"
#include "npubank/tools/benchmarks/allocation_trace.h"
#include "npubank/tools/command_line.h"

namespace npubank {
namespace {

absl::Status Replay(const std::string& path, const AllocationTrace& trace, NpuMemory& memory) {
  std::unordered_map<uint64_t, std::unique_ptr<DeviceAllocation>> live;
  const auto start = std::chrono::steady_clock::now();
  for (const AllocationTrace::Step& step : trace.steps) {
    if (!step.allocate) {
      live.erase(step.id);
      continue;
    }
    NPUBANK_ASSIGN_OR_RETURN(live[step.id], memory.Allocate(step.bytes, "traced"));
  }
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - start;
  constexpr double kMebibyte = 1 << 20;
  const auto reserved = static_cast<double>(memory.Usage().peak_held_bytes);
  const auto needed = static_cast<double>(trace.peak_live_bytes);
  std::printf("%-28s %-10s %9.1f MiB reserved / %9.1f MiB live = %.3f  %8.2f us per operation\n",
              path.substr(path.rfind('/') + 1).c_str(),
              std::string(MemoryStrategyName(memory.strategy())).c_str(), reserved / kMebibyte,
              needed / kMebibyte, reserved / needed,
              elapsed.count() / static_cast<double>(trace.steps.size()));
  return absl::OkStatus();
}

absl::Status ReplayAll(const std::vector<std::string>& paths) {
  setenv("NPUBANK_NPU_VIRTUAL_MEMORY", "1", /*overwrite=*/0);
  NPUBANK_ASSIGN_OR_RETURN(auto device,
                           level_zero::Device::Open(level_zero::DeviceChoice::kSoftware));
  for (const std::string& path : paths) {
    NPUBANK_ASSIGN_OR_RETURN(const AllocationTrace trace, AllocationTrace::Load(path));
    if (trace.steps.empty()) continue;
    for (const MemoryStrategy strategy :
         {MemoryStrategy::kCommitted, MemoryStrategy::kPlaced, MemoryStrategy::kTiled}) {
      NPUBANK_ASSIGN_OR_RETURN(auto memory, NpuMemory::Create(device, {.strategy = strategy}));
      NPUBANK_RETURN_IF_ERROR(Replay(path, trace, *memory));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  const npubank::ProgramHelp help = {
      .name = "memory-benchmark",
      .purpose = "replays allocation traces on each strategy of device memory",
      .examples = {"memory-benchmark trace.txt other.txt"},
      .groups = {}};
  const std::vector<std::string> paths = npubank::ParseFlags(help, argc, argv);
  if (paths.empty())
    return npubank::ExitStatus(absl::InvalidArgumentError("give a trace: see --help"));
  return npubank::ExitStatus(npubank::ReplayAll(paths));
}
