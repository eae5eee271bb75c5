// TensorGroup: tensors that share an allocation. They leave together or not at all: a part of them
// would give nothing back.
//
//   for (const TensorGroup& group : GroupsOf(*books)) {
//     if (!group.leased() && group.CanComeBack()) ... it may leave ...
//   }
//
// A look at the books, good until their lock is let go.
#ifndef NPUBANK_BANK_BOOKS_BUDGET_TENSOR_GROUP_H_
#define NPUBANK_BANK_BOOKS_BUDGET_TENSOR_GROUP_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "npubank/bank/books/books.h"
#include "npubank/bank/books/entry.h"

namespace npubank {

struct TensorGroup {
  std::vector<Entry*> entries;  // one at least, in the order of registration

  uint64_t bytes() const { return entries.front()->memory->reserved_bytes(); }
  bool imported() const { return entries.front()->memory->strategy() == "imported"; }
  bool All(absl::FunctionRef<bool(const Entry&)> holds) const;
  bool leased() const;
  bool unowned() const;
  bool CanComeBack() const;
  bool HasOwnerAmong(absl::Span<OwnerRecord* const> records) const;
  // Whether somebody is awake who owns any of it; `sleepers` are taken to be asleep.
  bool HasOwnerAwake(absl::Span<OwnerRecord* const> sleepers) const;
};

// All that is on the device, in the order of registration.
std::vector<TensorGroup> GroupsOf(const Books& books) ABSL_EXCLUSIVE_LOCKS_REQUIRED(books.mutex);

}  // namespace npubank

#endif  // NPUBANK_BANK_BOOKS_BUDGET_TENSOR_GROUP_H_
