#include "tools/bank_place.h"

#include <utility>

#include "lazy_tensor/status_macros.h"

namespace npubank {

void Notices::Add(absl::string_view notice) {
  MutexLock lock(mutex_);
  all_.emplace_back(notice);
}

std::vector<std::string> Notices::All() const {
  MutexLock lock(mutex_);
  return all_;
}

absl::StatusOr<BankPlace> BankPlace::Open(level_zero::DeviceChoice choice, int workers,
                                          MemoryStrategy strategy, BankOptions options) {
  BankPlace place;
  NPUBANK_ASSIGN_OR_RETURN(place.device, level_zero::Device::Open(choice));
  NpuMemoryOptions memory;
  memory.strategy = strategy;
  place.notices = std::make_shared<Notices>();
  memory.notice = [notices = place.notices](absl::string_view notice) { notices->Add(notice); };
  NPUBANK_ASSIGN_OR_RETURN(place.memory, NpuMemory::Create(place.device, std::move(memory)));
  options.workers = std::make_shared<Workers>(workers);
  place.bank = Bank::Create(place.memory, std::move(options));
  return place;
}

}  // namespace npubank
