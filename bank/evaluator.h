// Evaluator: produces a tensor's bytes on the device. Knows recipes and device memory, not the
// books.
//
//   Evaluator evaluator(device, workers);
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<DeviceAllocation> memory,
//                            evaluator.Evaluate(*recipe, "layers.0.wq", cancelled));
//
// A recipe that is a stored constant and nothing more is imported where the device can do that;
// every other is written straight into its allocation, tile by tile, on the workers.
// Errors: whatever the device, the source or the recipe says, in front of it the tensor's name;
// nothing stays allocated. Threads: any. Cost: the evaluation.
#ifndef NPUBANK_BANK_EVALUATOR_H_
#define NPUBANK_BANK_EVALUATOR_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bank/cache_file.h"
#include "bank/device_memory.h"
#include "lazy_tensor/parallel.h"
#include "lazy_tensor/recipe.h"

namespace npubank {

class Evaluator {
 public:
  Evaluator(std::shared_ptr<DeviceMemory> device, std::shared_ptr<Workers> workers);

  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Evaluate(
      const Recipe& recipe, const std::string& name, const std::function<bool()>& cancelled) const;
  // Bytes that were evaluated before.
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Copy(absl::Span<const std::byte> bytes,
                                                         const std::string& name) const;
  // Bytes from a cache file, imported where the device can; DataLoss, and nothing is allocated,
  // when they are not what was written.
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Fetch(const CachedBytes& cached,
                                                          const std::string& name) const;

 private:
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Import(const Recipe& recipe,
                                                           const std::string& name) const;
  absl::StatusOr<std::shared_ptr<DeviceAllocation>> Produce(
      const Recipe& recipe, const std::string& name, const std::function<bool()>& cancelled) const;

  std::shared_ptr<DeviceMemory> device_;
  std::shared_ptr<Workers> workers_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_EVALUATOR_H_
