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
// where the device cannot, or the recipe changes them. Evaluate and Fetch allocate and write: a
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

  // Where Import is expected to succeed; costs a look-up.
  std::optional<ImportRange> RangeToImport(const Recipe& recipe) const;
  std::optional<ImportRange> RangeToImport(const CachedBytes& cached) const;
  std::optional<ImportRange> RangeToImport(const Description& description, uint64_t bytes) const;
  // Bytes of a file that would be imported if they lay where the device wants its arguments.
  bool Misaligned(const Recipe& recipe) const;
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Import(const Recipe& recipe,
                                                           const std::string& name) const;
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Evaluate(
      const Recipe& recipe, const std::string& name, const std::function<bool()>& cancelled) const;
  // Bytes that were evaluated before.
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Copy(absl::Span<const std::byte> bytes,
                                                         const std::string& name) const;
  // Bytes that another bank made, and keeps as they are.
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Import(const Upstream::Leased& leased,
                                                           uint64_t bytes,
                                                           const std::string& name) const;
  // Bytes from a cache file; DataLoss when they are not what was written.
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Import(const CachedBytes& cached,
                                                           const std::string& name) const;
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Fetch(const CachedBytes& cached,
                                                          const std::string& name) const;

 private:
  // Whether an argument of this type may begin at this place of a file.
  bool Aligned(const TensorType& type, uint64_t offset) const;

  std::shared_ptr<DeviceMemory> device_;
  std::shared_ptr<Workers> workers_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_LOADING_EVALUATOR_H_
