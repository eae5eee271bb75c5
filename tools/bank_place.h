// BankPlace: the device and the bank that models are loaded on.
//
//   NPUBANK_ASSIGN_OR_RETURN(BankPlace place,
//                            BankPlace::Open(level_zero::DeviceChoice::kAuto, /*workers=*/2,
//                                            MemoryStrategy::kAuto, {.budget_bytes = 1 << 30}));
//
// Copies share the same device and bank. Errors: those of Device::Open and NpuMemory::Create.
#ifndef NPUBANK_TOOLS_BANK_PLACE_H_
#define NPUBANK_TOOLS_BANK_PLACE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bank/bank.h"
#include "lazy_tensor/mutex.h"
#include "runtime/level_zero/device.h"
#include "runtime/memory/npu_memory.h"

namespace npubank {

// What the driver lacks of what was asked for, a line each; from any thread.
class Notices {
 public:
  void Add(absl::string_view notice);
  std::vector<std::string> All() const;

 private:
  mutable Mutex mutex_;
  std::vector<std::string> all_ ABSL_GUARDED_BY(mutex_);
};

struct BankPlace {
  std::shared_ptr<level_zero::Device> device;
  std::shared_ptr<NpuMemory> memory;
  std::shared_ptr<Bank> bank;
  std::shared_ptr<Notices> notices;

  // `workers` threads evaluate: they become those of `options`.
  static absl::StatusOr<BankPlace> Open(level_zero::DeviceChoice choice, int workers,
                                        MemoryStrategy strategy, BankOptions options = {});
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_BANK_PLACE_H_
