#include "npubank/bank/inventory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/files/snapshot.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/lazy_tensor/sources/retention.h"

namespace npubank {
namespace {

// Sums and counts, before they become text.
struct Amount {
  uint64_t bytes = 0;
  uint64_t count = 0;
};
using Amounts = std::map<std::string, Amount>;

void AddBank(const Bank& bank, const std::string& which, Inventory& inventory) {
  const BankSnapshot snapshot = bank.Snapshot();
  for (const TensorSnapshot& tensor : snapshot.tensors) {
    std::vector<std::string> owners = tensor.owners;
    std::sort(owners.begin(), owners.end());
    inventory[absl::StrCat(which, "tensor ", tensor.uid.ToHex(), " '", tensor.name, "'")] =
        absl::StrCat(tensor.state, ", ", tensor.device_bytes, " device bytes, ", tensor.leases,
                     " leases, owners: ", absl::StrJoin(owners, ", "));
  }
  std::map<std::string, uint64_t> owners;
  for (const std::string& owner : snapshot.owners) ++owners[owner];
  for (const auto& [name, count] : owners) {
    inventory[absl::StrCat(which, "owner '", name, "'")] = absl::StrCat(count);
  }
  inventory[absl::StrCat(which, "device bytes that the device memory counts")] =
      absl::StrCat(bank.Audit().device_bytes_counted);
}

void AddLiveObjects(Inventory& inventory) {
  for (const auto& [what, count] : LiveObjects()) inventory[what] = absl::StrCat(count);
  Amounts held;
  for (const HeldSource& source : HeldSources()) {
    Amount& amount = held[source.name];
    amount.bytes += source.bytes;
    amount.count += source.holders;
  }
  for (const auto& [name, amount] : held) {
    inventory[absl::StrCat("source bytes of '", name, "' that recipes hold")] =
        absl::StrCat(amount.bytes, " by ", amount.count, " constants");
  }
}

// "begin-end perms offset device inode  path"
void AddMappings(Inventory& inventory) {
  constexpr size_t kFieldsBeforePath = 5;
  std::map<std::string, uint64_t> bytes;
  std::set<std::string> code;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(' ', kFieldsBeforePath));
    if (fields.size() <= kFieldsBeforePath) continue;
    const std::string path(absl::StripAsciiWhitespace(fields[kFieldsBeforePath]));
    if (!absl::StartsWith(path, "/")) continue;  // memfds begin with it as well
    // ThreadSanitizer's shadow of constants, which it maps and unmaps as it likes.
    if (absl::StrContains(path, "/tsan.rodata.")) continue;
    const std::vector<absl::string_view> ends = absl::StrSplit(fields[0], '-');
    uint64_t begin = 0, end = 0;
    if (ends.size() != 2 || !absl::SimpleHexAtoi(ends[0], &begin) ||
        !absl::SimpleHexAtoi(ends[1], &end)) {
      continue;
    }
    bytes[path] += end - begin;
    if (absl::StrContains(fields[1], 'x')) code.insert(path);
  }
  for (const auto& [path, size] : bytes) {
    if (code.contains(path)) continue;
    inventory[absl::StrCat("mapping of ", path)] = absl::StrCat(size, " bytes");
  }
}

void AddDescriptors(Inventory& inventory) {
  std::map<std::string, uint64_t> counts;
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  for (const std::filesystem::directory_iterator end; !error && files != end;
       files.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(files->path(), gone).string();
    // The folder that is being read is one of them.
    if (!gone && !absl::EndsWith(target, "/fd")) ++counts[target];
  }
  for (const auto& [target, count] : counts) {
    inventory[absl::StrCat("open descriptors of ", target)] = absl::StrCat(count);
  }
}

}  // namespace

Inventory TakeInventory(absl::Span<const std::shared_ptr<Bank>> banks) {
  Inventory inventory;
  for (size_t i = 0; i < banks.size(); ++i) {
    AddBank(*banks[i], banks.size() == 1 ? "" : absl::StrCat("bank ", i, ": "), inventory);
  }
  AddLiveObjects(inventory);
  AddMappings(inventory);
  AddDescriptors(inventory);
  return inventory;
}

std::string DescribeChanges(const Inventory& before, const Inventory& now) {
  std::string text;
  for (const auto& [what, amount] : now) {
    const auto was = before.find(what);
    if (was == before.end()) {
      absl::StrAppend(&text, "left: ", what, ": ", amount, "\n");
    } else if (was->second != amount) {
      absl::StrAppend(&text, "changed: ", what, ": ", amount, "; at the start: ", was->second,
                      "\n");
    }
  }
  for (const auto& [what, amount] : before) {
    if (!now.contains(what)) absl::StrAppend(&text, "gone: ", what, ": ", amount, "\n");
  }
  return text;
}

}  // namespace npubank
