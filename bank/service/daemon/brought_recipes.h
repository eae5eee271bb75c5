// BroughtRecipes: what a client wants made, bound to the files that it brought: a Load's recipe lists, each
// over an index that has nothing in it but their own constants.
//
//   NPUBANK_ASSIGN_OR_RETURN(BroughtRecipes brought, BroughtRecipes::Bind(load, files, "pid 123"));
//   for (size_t i = 0; i < brought.tensors.size(); ++i)
//     bank->Register(owner, LazyTensor(brought.tensors[i]), brought.names[i]);
//
// A list's sources are those that the client named by their numbers, and no others: the digests are
// folded over the identities of files that were proved, so whoever knows a digest, a name or a path,
// and no more, gets another digest or nothing.
// Errors: InvalidArgument for a list that is damaged, that names a source which is not there, or whose
// constants do not lie in their sources; ResourceExhausted for tensors that are too large together.
// Threads: a pure function. Cost: some passes over the nodes, an fstat for each source.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_BROUGHT_RECIPES_H_
#define NPUBANK_BANK_SERVICE_DAEMON_BROUGHT_RECIPES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/service/daemon/source_proof.h"
#include "npubank/bank/service/wire/messages.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank::service {

struct BroughtRecipes {
  // Of one Load: what no machine has, and sums stay far from overflowing.
  static constexpr uint64_t kMostTensorBytes = uint64_t{1} << 48;

  std::shared_ptr<const SourceIndex> index;  // of all lists
  std::vector<Description> tensors;          // in the order they were asked for
  std::vector<std::string> names;

  static absl::StatusOr<BroughtRecipes> Bind(const Load& load,
                                             absl::Span<const std::shared_ptr<BroughtFile>> files,
                                             absl::string_view client);
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_BROUGHT_RECIPES_H_
