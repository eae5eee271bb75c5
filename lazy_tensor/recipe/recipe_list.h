// RecipeList: encoded recipes bound to the index that their constants are found in: what a weight is
// and which bytes it needs, known without a Recipe and without an open file.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto list, RecipeList::Bind(blob.recipes, index));
//   list->digest(0);                                     // the recipe's, folded over the index's leaves
//   LazyTensor weight(list, 0);                          // "described"
//   NPUBANK_ASSIGN_OR_RETURN(RecipePtr recipe, list->Make(0));     // opens what it needs
//
// Bind finds each source of the list in the index (the file of equal identity, or else the one of equal
// name and size) and each constant by its name, in that file, at that offset, with that type. So recipes of
// one model are never bound to another that happens to have tensors of these names.
//
// Ownership: shared and immutable; keeps the index, which keeps no file open. Threads: any.
// Cost: Bind one pass over the nodes; Make the nodes of that root.
// Errors: InvalidArgument for a list that is damaged or does not fit the index, naming file or tensor:
// compile the model again; NotFound for a tensor that the index does not have. Make: those of
// SourceIndex::Open; InvalidArgument where what is written is no recipe, naming the step.
#ifndef NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_LIST_H_
#define NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_LIST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/recipe/recipe_codec.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

class SourceIndex;  // sources/source_index.h

// Where a tensor lies that is stored as it is.
struct StoredConstant {
  Digest identity;  // of the file
  uint64_t offset = 0;
  TensorType type = {};
};

class RecipeList {
 public:
  static absl::StatusOr<std::shared_ptr<const RecipeList>> Bind(
      absl::string_view bytes, std::shared_ptr<const SourceIndex> index);
  // A list of one; InvalidArgument or NotFound where the index does not have what it is made of.
  static absl::StatusOr<std::shared_ptr<const RecipeList>> Of(
      const RecipePtr& recipe, std::shared_ptr<const SourceIndex> index);

  size_t size() const { return roots_.size(); }
  // As written; Make proves it.
  const TensorType& type(size_t root) const { return roots_[root].type; }
  const Digest& digest(size_t root) const { return roots_[root].digest; }
  const Digest& stamp(size_t root) const { return roots_[root].stamp; }
  const std::shared_ptr<const SourceIndex>& index() const { return index_; }
  // What Bind was given, for who binds it to the same files elsewhere; and of its table of sources, the
  // file of the index that each was found to be.
  absl::string_view bytes() const { return encoded_.bytes(); }
  absl::Span<const uint32_t> files() const { return files_; }

  absl::StatusOr<RecipePtr> Make(size_t root) const;
  // Nullopt for what is not a Constant.
  std::optional<StoredConstant> Stored(size_t root) const;
  // The recipe's description, as Recipe::Describe has it.
  std::string Describe(size_t root) const;

  // Recipes made from lists since the process began: what the test of one load counts.
  static uint64_t RecipesMade();

 private:
  struct Root {
    TensorType type;
    Digest digest;
    Digest stamp;
  };
  struct Made;  // recipes by node

  RecipeList(EncodedRecipes encoded, std::shared_ptr<const SourceIndex> index)
      : encoded_(std::move(encoded)), index_(std::move(index)) {}
  absl::Status BindSources();
  absl::Status Fold();
  // The file that the constant lies in, when the index agrees.
  absl::StatusOr<uint32_t> FindLeaf(const EncodedRecipes::Node& node) const;
  absl::StatusOr<RecipePtr> MakeNode(uint32_t number, Made& made) const;
  void AppendDescription(uint32_t number, std::string& text) const;

  EncodedRecipes encoded_;
  std::shared_ptr<const SourceIndex> index_;
  std::vector<uint32_t> files_;  // of the index, by number in the list's table of sources
  std::vector<Root> roots_;
};

// One root of a list: how a tensor that was let go is made again. Costs a pointer and a number.
struct Description {
  std::shared_ptr<const RecipeList> list;
  size_t root = 0;

  explicit operator bool() const { return list != nullptr; }
  const Digest& digest() const { return list->digest(root); }
  const Digest& stamp() const { return list->stamp(root); }
  absl::StatusOr<RecipePtr> Make() const { return list->Make(root); }
  std::string Describe() const { return list->Describe(root); }
  std::optional<StoredConstant> Stored() const {
    return list == nullptr ? std::nullopt : list->Stored(root);
  }
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_LIST_H_
