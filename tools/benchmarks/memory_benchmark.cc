// memory-benchmark: replays allocation traces on each strategy of device memory.
//
//   memory-benchmark trace.txt...
//
// The traces given, then made ones: models of odd sizes that take turns, whose bars a test holds, and
// adversarial ones, which are for comparison only. Prints, per trace and strategy, what was held of
// the driver at the peak for what was live at the peak, the most that was held for what tensors
// cost (at moments with at least half of the peak live), and the mean time of an allocation or a
// free. Runs on the software NPU with virtual memory switched on, unless the environment says
// otherwise; nothing is written to the memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/npu_memory.h"
#include "npubank/tools/benchmarks/allocation_trace.h"
#include "npubank/tools/terminal/command_line.h"

namespace npubank {
namespace {

constexpr double kMebibyte = 1 << 20;

// What a replay came to.
struct Result {
  double peak_ratio = 0;    // what was held of the driver at its peak, for what was live at its own
  double kept_ratio = 0;    // the most that was held beyond what tensors cost, for what they cost
  double microseconds = 0;  // of an operation
};

absl::StatusOr<Result> Replay(const AllocationTrace& trace, NpuMemory& memory) {
  std::unordered_map<uint64_t, std::unique_ptr<DeviceAllocation>> live;
  Result result;
  std::chrono::duration<double, std::micro> elapsed{0};
  for (const AllocationTrace::Step& step : trace.steps) {
    const auto start = std::chrono::steady_clock::now();
    if (step.allocate) {
      NPUBANK_ASSIGN_OR_RETURN(live[step.id], memory.Allocate(step.bytes, "traced"));
    } else {
      live.erase(step.id);
    }
    elapsed += std::chrono::steady_clock::now() - start;
    const DeviceUsage usage = memory.Usage();
    if (usage.live_bytes < trace.peak_live_bytes / 2) continue;  // of nearly nothing all is much
    result.kept_ratio = std::max(result.kept_ratio, static_cast<double>(usage.held_bytes) /
                                                        static_cast<double>(usage.live_bytes));
  }
  result.peak_ratio = static_cast<double>(memory.Usage().peak_held_bytes) /
                      static_cast<double>(trace.peak_live_bytes);
  result.microseconds = elapsed.count() / static_cast<double>(trace.steps.size());
  return result;
}

absl::Status ReplayOnEach(const std::string& name, const AllocationTrace& trace,
                          const std::shared_ptr<level_zero::Device>& device) {
  if (trace.steps.empty()) return absl::OkStatus();
  for (const MemoryStrategy strategy :
       {MemoryStrategy::kCommitted, MemoryStrategy::kPlaced, MemoryStrategy::kTiled}) {
    NPUBANK_ASSIGN_OR_RETURN(auto memory, NpuMemory::Create(device, {.strategy = strategy}));
    NPUBANK_ASSIGN_OR_RETURN(const Result result, Replay(trace, *memory));
    std::printf(
        "%-24s %-10s %9.1f MiB live, peak held / live %.3f, held / reserved %.3f  %8.2f us\n",
        name.c_str(), std::string(MemoryStrategyName(memory->strategy())).c_str(),
        static_cast<double>(trace.peak_live_bytes) / kMebibyte, result.peak_ratio,
        result.kept_ratio, result.microseconds);
  }
  return absl::OkStatus();
}

// With the pages that NPUBANK_NPU_PAGE_SIZE and NPUBANK_NPU_TILE_SIZE say.
absl::Status ReplayAll(const std::vector<std::string>& paths) {
  NPUBANK_ASSIGN_OR_RETURN(auto device,
                           level_zero::Device::Open(level_zero::DeviceChoice::kSoftware));
  for (const std::string& path : paths) {
    NPUBANK_ASSIGN_OR_RETURN(const AllocationTrace trace, AllocationTrace::Load(path));
    NPUBANK_RETURN_IF_ERROR(ReplayOnEach(path.substr(path.rfind('/') + 1), trace, device));
  }
  constexpr uint32_t kSeeds = 20;
  for (uint32_t seed = 1; seed <= kSeeds; ++seed)
    NPUBANK_RETURN_IF_ERROR(ReplayOnEach(absl::StrCat("model switches, seed ", seed),
                                         AllocationTrace::ModelSwitches(seed), device));
  for (uint32_t seed = 1; seed <= kSeeds; ++seed)
    NPUBANK_RETURN_IF_ERROR(ReplayOnEach(absl::StrCat("adversarial, seed ", seed),
                                         AllocationTrace::Adversarial(seed), device));
  return absl::OkStatus();
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  // Before any thread reads the environment.
  setenv("NPUBANK_NPU_VIRTUAL_MEMORY", "1", /*overwrite=*/0);
  const npubank::ProgramHelp help = {
      .name = "memory-benchmark",
      .purpose = "replays allocation traces on each strategy of device memory",
      .examples = {"memory-benchmark trace.txt other.txt",
                   "NPUBANK_NPU_PAGE_SIZE=2M NPUBANK_NPU_TILE_SIZE=2M memory-benchmark"},
      .groups = {}};
  return npubank::ExitStatus(npubank::ReplayAll(npubank::ParseFlags(help, argc, argv)));
}
