// Whatever the bytes of a snapshot are, under a seal of its own or under a good one, what is read
// from them is written and read as the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "npubank/bank/files/snapshot.h"

namespace npubank {
namespace {

void Check(absl::string_view file) {
  const auto first = DecodeSnapshot(file);
  if (!first.ok()) return;
  const auto second = DecodeSnapshot(EncodeSnapshot(*first));
  if (!second.ok() || second->tensors.size() != first->tensors.size()) abort();
  for (size_t i = 0; i < first->tensors.size(); ++i) {
    if (second->tensors[i].uid != first->tensors[i].uid) abort();
    if (second->tensors[i].owners != first->tensors[i].owners) abort();
  }
}

}  // namespace
}  // namespace npubank

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npubank;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  Check(bytes);
  Check(absl::StrCat(EncodeSeal(kSnapshotFile, FileSeal::kBytes, bytes), bytes));
  return 0;
}
