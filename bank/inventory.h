// Inventory: what a program holds, by name, from counts that know nothing of each other: banks' books, what
// their device memories count, live objects of the library and of the rooms above (base/live_objects.h), and
// the system's own lists of the process's mappings and open descriptors.
//
//   const Inventory before = TakeInventory({bank});
//   ...
//   std::string left = DescribeChanges(before, TakeInventory({bank}));   // empty: nothing
//
// testing.h is the guard over it. Mappings are those of files and memfds, by bytes; code is left out, as a
// library that was loaded stays.
//
// Threads: take it while nothing loads or runs. Cost: a snapshot of each bank; two folders of /proc.
#ifndef NPUBANK_BANK_INVENTORY_H_
#define NPUBANK_BANK_INVENTORY_H_

#include <map>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "npubank/bank/bank.h"

namespace npubank {

// What, and a description of how much of it.
using Inventory = std::map<std::string, std::string>;

Inventory TakeInventory(absl::Span<const std::shared_ptr<Bank>> banks);

// A line for each thing that was not there before, is not there any more, or is another.
std::string DescribeChanges(const Inventory& before, const Inventory& now);

}  // namespace npubank

#endif  // NPUBANK_BANK_INVENTORY_H_
