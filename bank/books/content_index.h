// ContentIndex: which tensors on the device may have equal bytes, by their content's hash
// (bank/loading/content.h): candidates, and no more than that.
//
//   index.Add(entry);      // resident, with `content`
//   index.NotCompared(content, memory, others);  // who must be compared with before publishing
//   index.Remove(entry);
//
// Threads: the books' mutex guards it. Cost: a hash look-up.
#ifndef NPUBANK_BANK_BOOKS_CONTENT_INDEX_H_
#define NPUBANK_BANK_BOOKS_CONTENT_INDEX_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "npubank/bank/books/entry.h"
#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank {

class ContentIndex {
 public:
  // Nothing happens for an entry without content.
  void Add(Entry& entry);
  // Its content goes.
  void Remove(Entry& entry);

  // The allocations of that content that are not among `others`; none when `memory` is one of them.
  std::vector<std::shared_ptr<DeviceAllocation>> NotCompared(
      const std::optional<Digest>& content, const std::shared_ptr<DeviceAllocation>& memory,
      absl::Span<const std::shared_ptr<DeviceAllocation>> others) const;

 private:
  absl::flat_hash_map<uint64_t, std::vector<Entry*>> entries_;  // by the low half of the hash
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_CONTENT_INDEX_H_
