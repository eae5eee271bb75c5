// Whatever the bytes of a snapshot are, what is read from them is written and read as the same
// again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "bank/snapshot.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto first =
      npubank::DecodeSnapshot(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!first.ok()) return 0;
  const auto second = npubank::DecodeSnapshot(npubank::EncodeSnapshot(*first));
  if (!second.ok() || second->tensors.size() != first->tensors.size()) abort();
  for (size_t i = 0; i < first->tensors.size(); ++i) {
    if (second->tensors[i].uid != first->tensors[i].uid) abort();
    if (second->tensors[i].owners != first->tensors[i].owners) abort();
  }
  return 0;
}
