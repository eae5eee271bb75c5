// StoredBytes: what a file holds of a tensor that is used as it is stored.
//
//   EXPECT_EQ(StoredBytes(*checkpoint->Tensor("lm_head.weight")), expected);
#ifndef NPUBANK_TESTS_UNIT_FORMATS_STORED_BYTES_H_
#define NPUBANK_TESTS_UNIT_FORMATS_STORED_BYTES_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank {

inline std::string StoredBytes(const LazyTensor& tensor) {
  const RecipePtr recipe = tensor.MakeRecipe().value();
  const auto& constant = std::get<ConstantOp>(recipe->op());
  std::string bytes(recipe->type().bytes(), '\0');
  const absl::Status status = constant.hold->source().Read(
      constant.offset, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size()));
  EXPECT_TRUE(status.ok()) << status;
  return bytes;
}

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_FORMATS_STORED_BYTES_H_
