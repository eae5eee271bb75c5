#include "npubank/runtime/npu.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {

absl::StatusOr<std::shared_ptr<Npu>> Npu::Open(NpuOptions options) {
  const int workers =
      options.workers.value_or(static_cast<int>(std::thread::hardware_concurrency()));
  if (workers < 0)
    return absl::InvalidArgumentError(absl::StrCat(
        "an NPU with ", workers, " workers: give 0 to evaluate on the loading thread"));
  std::shared_ptr<Npu> npu(new Npu);
  NPUBANK_ASSIGN_OR_RETURN(npu->device_, level_zero::Device::Open(options.device));
  NPUBANK_ASSIGN_OR_RETURN(npu->memory_,
                           NpuMemory::Create(npu->device_, std::move(options.memory)));
  npu->workers_ = std::make_shared<ThreadWorkers>(workers);
  return npu;
}

absl::StatusOr<std::shared_ptr<Bank>> Npu::MakeBank(BankOptions options) const {
  if (options.workers == nullptr) options.workers = workers_;
  return Bank::Create(memory_, std::move(options));
}

}  // namespace npubank
