// Whatever the texts are in which the system says which control groups there are: few folders, each
// with its whole path.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "npubank/bank/service/memory_limit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using npubank::service::MemoryGroup;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t middle = text.find('\0');  // between the one text and the other
  const absl::string_view mounts = middle == text.npos ? "" : text.substr(middle + 1);
  const auto groups = npubank::service::MemoryGroups(text.substr(0, middle), mounts);
  if (groups.size() > npubank::service::kMostGroups) abort();
  for (const MemoryGroup& group : groups) {
    if (group.folder.empty() || group.folder[0] != '/') abort();
  }
  return 0;
}
