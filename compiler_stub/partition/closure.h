// Closures: the weights of a submodel, and which of them each call is bound to.
//
//   Closures closures(graph);
//   Binding binding = closures.Bind(value);   // {kWeight, number}
//   closures.weights();                         // one per number
//   NPUBANK_ASSIGN_OR_RETURN(std::string recipes, closures.Encode());
//
// A weight gets its number when it is first bound; a weight that several calls use has one number,
// so the blob carries its recipe once. Threads: none of its own.
#ifndef NPUBANK_COMPILER_STUB_PARTITION_CLOSURE_H_
#define NPUBANK_COMPILER_STUB_PARTITION_CLOSURE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/frontend/graph.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/recipe/recipe_codec.h"

namespace npubank {

class Closures {
 public:
  explicit Closures(const Graph& graph) : graph_(graph) {}

  Binding Bind(uint32_t weight) {
    const auto next = static_cast<uint32_t>(weights_.size());
    const auto [known, added] = numbers_.emplace(weight, next);
    if (added) {
      weights_.push_back({graph_.value(weight).name, graph_.value(weight).part});
      values_.push_back(weight);
    }
    return {BindingKind::kWeight, known->second};
  }

  const std::vector<SubmodelWeight>& weights() const { return weights_; }
  // The weights' recipes, root i for number i (recipe_codec.h).
  absl::StatusOr<std::string> Encode() const {
    std::vector<RecipePtr> recipes;
    for (const uint32_t weight : values_) {
      NPUBANK_ASSIGN_OR_RETURN(recipes.emplace_back(), graph_.value(weight).weight->MakeRecipe());
    }
    return EncodeRecipes(recipes);
  }

 private:
  const Graph& graph_;
  std::map<uint32_t, uint32_t> numbers_;  // by value of the graph
  std::vector<SubmodelWeight> weights_;   // by number
  std::vector<uint32_t> values_;          // of the graph, by number
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PARTITION_CLOSURE_H_
