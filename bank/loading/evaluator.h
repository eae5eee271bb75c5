// Evaluator: produces a tensor's bytes on the device. Knows recipes and device memory, not the
// books.
//
//   Evaluator evaluator(device, workers);
//   absl::StatusOr<std::shared_ptr<DeviceAllocation>> memory =
//       evaluator.Import(*recipe, "layers.0.wq");
//   if (... it cannot be imported ...)
//     memory = evaluator.Evaluate(*recipe, "layers.0.wq", cancelled);
//
// Import makes a file's bytes the device's memory as they are: Unimplemented or FailedPrecondition
// where the device cannot, the recipe changes them, or they do not lie where the hints say: a page of a
// file is in no pool of a device's, and at a multiple of 4096. Evaluate and Fetch allocate and write: a
// recipe straight into its allocation, tile by tile, on the workers. They are apart because what is
// imported needs no room.
// Errors: whatever the device, the source or the recipe says; nothing stays allocated. Threads:
// any. Cost: the evaluation.
#ifndef NPUBANK_BANK_LOADING_EVALUATOR_H_
#define NPUBANK_BANK_LOADING_EVALUATOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/bank/device_memory.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/bank/upstream.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"

namespace npubank {

class Evaluator {
 public:
  Evaluator(std::shared_ptr<DeviceMemory> device, std::shared_ptr<Workers> workers);

  // Whether any place on a page of a file will do for a tensor of these hints.
  static bool PagesMeet(const MemoryHints& hints);
  // Where Import is expected to succeed; costs a look-up.
  std::optional<ImportRange> RangeToImport(const Recipe& recipe, const MemoryHints& hints) const;
  std::optional<ImportRange> RangeToImport(const CachedBytes& cached,
                                           const MemoryHints& hints) const;
  std::optional<ImportRange> RangeToImport(const Description& description, uint64_t bytes,
                                           const MemoryHints& hints) const;
  // Bytes of a file that would be imported if they lay where the device, or the hints, want its arguments.
  bool Misaligned(const Recipe& recipe, const MemoryHints& hints) const;
  // What is made: its name, and where it should lie.
  struct Wanted {
    std::string name;
    MemoryHints hints;
  };
  using MemoryOr = absl::StatusOr<std::shared_ptr<DeviceAllocation>>;
  MemoryOr Import(const Recipe& recipe, const Wanted& wanted) const;
  MemoryOr Evaluate(const Recipe& recipe, const Wanted& wanted,
                    const std::function<bool()>& cancelled) const;
  // Bytes that were evaluated before.
  MemoryOr Copy(absl::Span<const std::byte> bytes, const Wanted& wanted) const;
  // Bytes that another bank made, and keeps as they are.
  MemoryOr Import(const Upstream::Leased& leased, uint64_t bytes, const Wanted& wanted) const;
  // Bytes from a cache file; DataLoss when they are not what was written.
  MemoryOr Import(const CachedBytes& cached, const Wanted& wanted) const;
  MemoryOr Fetch(const CachedBytes& cached, const Wanted& wanted) const;

 private:
  // Whether an argument of this type may begin at this place of a file.
  bool Aligned(const TensorType& type, uint64_t offset, const MemoryHints& hints) const;
  // Refused when it does not come where the hints say.
  MemoryOr ImportPages(std::shared_ptr<Source> source, uint64_t offset, uint64_t bytes,
                       const Wanted& wanted) const;

  std::shared_ptr<DeviceMemory> device_;
  std::shared_ptr<Workers> workers_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_LOADING_EVALUATOR_H_
