// Recipe codec: recipes as bytes, so that a compiled submodel can carry its closures without their
// weights, and a bank can bring back what it evicted.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::string bytes, EncodeRecipes({wq, wk}));
//   NPUBANK_ASSIGN_OR_RETURN(auto list, RecipeList::Bind(bytes, index));    // recipe_list.h
//
// Format, version 2 (recipe.fbs): a table of sources (name, size, identity); then the nodes, each after
// those it uses, with its operation's number and its own type; then the roots. A Constant is (number in
// the table of sources, offset, type, name), so a tensor's name alone never decides which bytes are meant:
// recipes of two models with equal tensor names stay apart in one bank. Sub-recipes shared by several
// roots are written once. The same bytes always come from the same recipes. Operation numbers are
// never reused (recipe_op.h). Version 1 knew neither sources nor offsets and is refused by its number.
//
// Errors: InvalidArgument for a recipe that is null, or too large (the kMax constants), and for a
// constant without a name. Threads: a pure function.
#ifndef NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_CODEC_H_
#define NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/recipe/recipe_op.h"

namespace npubank {

absl::StatusOr<std::string> EncodeRecipes(absl::Span<const RecipePtr> roots);

// A list's bytes, verified, its nodes read one at a time: what RecipeList is made of.
class EncodedRecipes {
 public:
  // Bounds on what a list may ask of the reader: nodes may share their parts in the file, so the
  // file's size alone does not bound the work.
  static constexpr size_t kMaxNodes = 1 << 18;
  static constexpr size_t kMaxInputs = 1 << 20;  // over all nodes
  static constexpr size_t kMaxSources = 1 << 13;
  static constexpr size_t kMaxNameBytes = 4096;
  static constexpr size_t kMaxBytes = size_t{1} << 30;

  struct SourceFacts {
    std::string name;
    uint64_t size = 0;
    Digest identity;
  };
  // A node as it was written; whether the operation takes these inputs and gives this type shows when
  // a Recipe is made of it.
  struct Node {
    RecipeOp op;
    uint32_t source = 0;  // of a constant
    std::vector<uint32_t> inputs;
    TensorType type;
  };

  // Copies `bytes`. InvalidArgument for what is no list of this version within the bounds.
  static absl::StatusOr<EncodedRecipes> Open(absl::string_view bytes);

  // As they were given to Open.
  absl::string_view bytes() const {
    return absl::string_view(reinterpret_cast<const char*>(words_.data()), size_);
  }
  size_t node_count() const;
  size_t source_count() const;
  size_t root_count() const;
  uint32_t root(size_t i) const;  // less than node_count()
  absl::StatusOr<SourceFacts> source(size_t i) const;
  // InvalidArgument, or Unimplemented for an operation that this reader does not know (its number).
  absl::StatusOr<Node> node(size_t i) const;
  bool is_constant(size_t i) const;  // without reading it whole

 private:
  EncodedRecipes() = default;
  size_t size_ = 0;
  std::vector<uint64_t> words_;  // flatbuffers reads numbers where they lie, on their own alignment
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_RECIPE_RECIPE_CODEC_H_
