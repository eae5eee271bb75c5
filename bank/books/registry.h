// Registry: who owns which tensors.
//
//   auto registry = std::make_shared<Registry>(books);
//   const uint64_t owner = registry->AddOwner("prefill", index);
//   NPUBANK_ASSIGN_OR_RETURN(Registration known, registry->Register(owner, tensor, "wq", {}));
//
// A tensor is known from its first registration until nobody owns or leases it any more.
// Threads: every method, from any thread. Cost: a look-up, but for releasing, which walks what the
// owner has, and a miss, which makes an entry.
#ifndef NPUBANK_BANK_BOOKS_REGISTRY_H_
#define NPUBANK_BANK_BOOKS_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/adopted_tensor.h"
#include "npubank/bank/books/books.h"
#include "npubank/bank/books/results.h"
#include "npubank/bank/owner.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"

namespace npubank {

// One tensor of an owner, for planning a load.
struct OwnedTensor {
  Uid uid;
  std::string name;
  uint64_t bytes = 0;
};

class Registry final : public Owner::Ledger {
 public:
  explicit Registry(std::shared_ptr<Books> books) : books_(std::move(books)) {}

  uint64_t AddOwner(absl::string_view name, std::shared_ptr<const SourceIndex> index);
  void ReleaseOwner(uint64_t id) override;
  bool HasOwner(uint64_t id) const;
  // Null for an owner that has none, or was released.
  std::shared_ptr<const SourceIndex> IndexOf(uint64_t owner) const;
  // In the order of registration by this owner; FailedPrecondition after its release.
  absl::StatusOr<std::vector<OwnedTensor>> TensorsOf(uint64_t owner) const;

  // `way_back` is this owner's; it may be empty. Contract: Bank::Register.
  absl::StatusOr<Registration> Register(uint64_t owner, LazyTensor tensor, absl::string_view name,
                                        Description way_back, const MemoryHints& hints);
  // All of them or none. Contract: Bank::Adopt.
  absl::Status Adopt(absl::Span<const AdoptedTensor> tensors,
                     std::shared_ptr<DeviceAllocation> memory,
                     const std::optional<Digest>& content);

 private:
  // The tensor's entry, which is now the owner's as well; null when the tensor is not known.
  absl::StatusOr<Entry*> RegisterKnown(uint64_t owner, const LazyTensor& tensor,
                                       absl::string_view name, const Description& way_back,
                                       const MemoryHints& hints, Books::Garbage& garbage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(books_->mutex);
  // A known tensor, for an owner who asks for memory of a certain kind: what is on the device elsewhere
  // leaves it, and what cannot is refused. The tensor may be gone afterwards.
  absl::Status Ask(Entry& entry, const MemoryHints& hints, absl::string_view name,
                   Books::Garbage& garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(books_->mutex);
  Registration Hit(LazyTensor& tensor, bool wants_recipe);

  const std::shared_ptr<Books> books_;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_REGISTRY_H_
