// Closures: the weights of a submodel, and which of them each call is bound to.
//
//   Closures closures(graph);
//   Binding binding = closures.Bind(value);   // {kWeight, number}
//   closures.names(); closures.recipes();     // one per number
//
// A weight gets its number when it is first bound; a weight that several calls use has one number,
// so the blob carries its recipe once. Threads: none of its own.
#ifndef NPUBANK_COMPILER_STUB_PARTITION_CLOSURE_H_
#define NPUBANK_COMPILER_STUB_PARTITION_CLOSURE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/frontend/graph.h"

namespace npubank {

class Closures {
 public:
  explicit Closures(const Graph& graph) : graph_(graph) {}

  Binding Bind(uint32_t weight) {
    const auto next = static_cast<uint32_t>(names_.size());
    const auto [known, added] = numbers_.emplace(weight, next);
    if (added) {
      names_.push_back(graph_.value(weight).name);
      recipes_.push_back(graph_.value(weight).recipe);
    }
    return {BindingKind::kWeight, known->second};
  }

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<RecipePtr>& recipes() const { return recipes_; }

 private:
  const Graph& graph_;
  std::map<uint32_t, uint32_t> numbers_;  // by value of the graph
  std::vector<std::string> names_;
  std::vector<RecipePtr> recipes_;
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_PARTITION_CLOSURE_H_
