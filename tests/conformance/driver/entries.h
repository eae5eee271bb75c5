// DriverEntry: one function of a driver's tables, called with arguments made by chance.
//
//   for (const DriverEntry& entry : ExportedEntries(graphs)) entry.call(caller);
#ifndef NPUBANK_TESTS_CONFORMANCE_DRIVER_ENTRIES_H_
#define NPUBANK_TESTS_CONFORMANCE_DRIVER_ENTRIES_H_

#include <functional>
#include <string>
#include <vector>

#include "npubank/runtime/level_zero/graph_extension.h"
#include "npubank/tests/conformance/driver/caller.h"

namespace npubank {

struct DriverEntry {
  std::string name;
  std::function<void(DriverCaller&)> call;
};

// All entries of all tables of the driver that ZE_ENABLE_ALT_DRIVERS names, and of `graphs`.
std::vector<DriverEntry> ExportedEntries(const level_zero::GraphExtension* graphs);

}  // namespace npubank

#endif  // NPUBANK_TESTS_CONFORMANCE_DRIVER_ENTRIES_H_
