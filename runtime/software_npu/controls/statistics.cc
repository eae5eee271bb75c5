#include "npubank/runtime/software_npu/controls/statistics.h"

#include <algorithm>
#include <atomic>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/software_npu/controls/forks.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/graphs/graph.h"
#include "npubank/runtime/software_npu/graphs/build_log.h"
#include "npubank/runtime/software_npu/handles.h"
#include "npubank/runtime/software_npu/queues/command_list.h"
#include "npubank/runtime/software_npu/queues/event.h"
#include "npubank/runtime/software_npu/queues/fence.h"
#include "npubank/runtime/software_npu/queues/queue.h"

namespace npubank::software_npu {
namespace {

struct Totals {
  Totals() { KeepAcrossForks(mutex); }

  Mutex mutex;
  level_zero::SoftwareNpuStatistics counts ABSL_GUARDED_BY(mutex);
  std::atomic<uint64_t> copied_bytes{0};
  std::atomic<uint64_t> counted_bytes{0};
  std::atomic<uint64_t> driver_bytes{0};
};

Totals& GetTotals() {
  static auto* const totals = new Totals;
  return *totals;
}

bool TakesCapacity(Charge::Kind kind) {
  return kind == Charge::Kind::kAllocation || kind == Charge::Kind::kPhysical;
}

bool TakesAddresses(Charge::Kind kind) { return kind != Charge::Kind::kPhysical; }

bool Fits(uint64_t used, uint64_t more, uint64_t most) {
  return used <= most && more <= most - used;
}

// Adds `sign` objects of this kind and their bytes to the counts.
void Count(level_zero::SoftwareNpuStatistics& counts, Charge::Kind kind, uint64_t bytes,
           uint64_t one) {
  switch (kind) {
    case Charge::Kind::kAllocation:
      counts.live_allocations += one;
      break;
    case Charge::Kind::kImport:
      counts.live_imports += one;
      counts.imported_bytes += bytes;
      break;
    case Charge::Kind::kPhysical:
      counts.live_physical_memories += one;
      break;
    case Charge::Kind::kReservation:
      counts.live_reservations += one;
      break;
  }
  if (TakesCapacity(kind)) counts.live_bytes += bytes;
}

}  // namespace

std::optional<Charge> Charge::Take(Kind kind, uint64_t bytes, std::shared_ptr<Context> context) {
  const std::shared_ptr<const Switches> switches = GetSwitches();
  Totals& totals = GetTotals();
  MutexLock lock(totals.mutex);
  if (TakesCapacity(kind) && !Fits(totals.counts.live_bytes, bytes, switches->capacity)) {
    return std::nullopt;
  }
  if (TakesAddresses(kind) && !Fits(context->mapped_bytes, bytes, switches->address_range)) {
    return std::nullopt;
  }
  Count(totals.counts, kind, bytes, 1);
  totals.counts.peak_bytes = std::max(totals.counts.peak_bytes, totals.counts.live_bytes);
  if (kind == Kind::kAllocation) ++totals.counts.total_allocations;
  if (TakesAddresses(kind)) context->mapped_bytes += bytes;
  return Charge(kind, bytes, std::move(context));
}

Charge::~Charge() {
  if (context_ == nullptr) return;
  Totals& totals = GetTotals();
  MutexLock lock(totals.mutex);
  // Unsigned arithmetic wraps, so adding the negated counts takes them off.
  Count(totals.counts, kind_, -bytes_, -uint64_t{1});
  if (TakesAddresses(kind_)) context_->mapped_bytes -= bytes_;
}

Counted::Counted(Kind kind, uint64_t bytes, std::shared_ptr<Context> context)
    : kind_(kind), bytes_(bytes), context_(std::move(context)) {
  context_->counted_bytes += bytes_;
  GetTotals().counted_bytes += bytes_;
  if (kind_ == Kind::kDriver) GetTotals().driver_bytes += bytes_;
}

Counted::~Counted() {
  if (context_ == nullptr) return;
  context_->counted_bytes -= bytes_;
  GetTotals().counted_bytes -= bytes_;
  if (kind_ == Kind::kDriver) GetTotals().driver_bytes -= bytes_;
}

void CountCopiedBytes(uint64_t bytes) { GetTotals().copied_bytes += bytes; }

ze_result_t GetStatistics(level_zero::SoftwareNpuStatistics* out) {
  if (out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  Totals& totals = GetTotals();
  {
    MutexLock lock(totals.mutex);
    *out = totals.counts;
  }
  out->copied_bytes = totals.copied_bytes;
  out->counted_bytes = totals.counted_bytes;
  out->driver_bytes = totals.driver_bytes;
  out->live_contexts = Live<Context>().size();
  out->live_queues = Live<Queue>().size();
  out->live_lists = Live<CommandList>().size();
  out->live_fences = Live<Fence>().size();
  out->live_event_pools = Live<EventPool>().size();
  out->live_events = Live<Event>().size();
  out->live_graphs = Live<Graph>().size();
  out->live_build_logs = Live<BuildLog>().size();
  return ZE_RESULT_SUCCESS;
}

ze_result_t ResetPeak() {
  Totals& totals = GetTotals();
  MutexLock lock(totals.mutex);
  totals.counts.peak_bytes = totals.counts.live_bytes;
  return ZE_RESULT_SUCCESS;
}

}  // namespace npubank::software_npu
