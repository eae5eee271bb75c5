#include "npubank/lazy_tensor/base/live_objects.h"

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank {
namespace {

struct Table {
  Mutex mutex;
  std::map<std::string, uint64_t> counts ABSL_GUARDED_BY(mutex);

  static Table& Get() {
    static Table* const table = new Table;  // outlives what static objects hold
    return *table;
  }
};

}  // namespace

LiveObject::LiveObject(absl::string_view kind, absl::string_view name)
    : key_(name.empty() ? std::string(kind) : absl::StrCat(kind, " '", name, "'")) {
  Table& table = Table::Get();
  MutexLock lock(table.mutex);
  ++table.counts[key_];
}

LiveObject::~LiveObject() {
  if (key_.empty()) return;
  Table& table = Table::Get();
  MutexLock lock(table.mutex);
  const auto found = table.counts.find(key_);
  if (--found->second == 0) table.counts.erase(found);
}

std::map<std::string, uint64_t> LiveObjects() {
  Table& table = Table::Get();
  MutexLock lock(table.mutex);
  return table.counts;
}

}  // namespace npubank
