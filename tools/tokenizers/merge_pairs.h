// MergePairs: the step that all byte pair encodings share: of the neighbours in a text, which become one next.
//
//   std::vector<Symbol> symbols = ...;                  // the text in its characters
//   MergePairs(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
//     return ...;                                       // what the two become, and how soon
//   });
//
// The pair of the lowest order becomes one, the leftmost of equals, until no pair has a merge.
// Cost: O(n log n) and one call of the rule for each pair that arises, at most 3 n.
#ifndef NPUBANK_TOOLS_TOKENIZERS_MERGE_PAIRS_H_
#define NPUBANK_TOOLS_TOKENIZERS_MERGE_PAIRS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace npubank {

// A stretch of the text that is one token.
struct Symbol {
  int32_t id;
  size_t begin;
  size_t length;  // bytes, 1 at least
};

struct Merge {
  double order;  // the lowest comes first
  int32_t id;    // of what comes out
};

void MergePairs(
    std::vector<Symbol>& symbols,
    absl::FunctionRef<std::optional<Merge>(const Symbol& left, const Symbol& right)> rule);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_MERGE_PAIRS_H_
