// ConstantsIndex: an index of just what some recipes are made of, as a checkpoint would have it.
//
//   auto index = ConstantsIndex({wq, wk});       // their sources and constants, by name
#ifndef NPUBANK_TESTS_SUPPORT_WEIGHTS_CONSTANTS_INDEX_H_
#define NPUBANK_TESTS_SUPPORT_WEIGHTS_CONSTANTS_INDEX_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

inline std::shared_ptr<const SourceIndex> ConstantsIndex(const std::vector<RecipePtr>& recipes) {
  auto index = std::make_shared<SourceIndex>("the constants");
  std::map<const Source*, uint32_t> files;
  for (const RecipePtr& recipe : recipes) {
    recipe->ForEachConstant([&](const Recipe& leaf, const ConstantOp& constant) {
      const auto [file, is_new] = files.emplace(&constant.hold->source(), 0);
      if (is_new) {
        file->second = index->AddFile(SourceOpener::Held(constant.hold->shared_source())).value();
      }
      if (index->Find(constant.name) != nullptr) return;
      EXPECT_TRUE(index->Add({constant.name, leaf.type(), file->second, constant.offset}).ok());
    });
  }
  return index;
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_WEIGHTS_CONSTANTS_INDEX_H_
