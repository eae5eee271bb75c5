// ReferenceEvaluate: a recipe's bytes by the book: every step on the whole tensor, one element at a
// time, with nothing shared with the evaluator but the reference kernels. Slow, and meant to be
// obviously right.
//
//   EXPECT_TRUE(SameElements(recipe->type(), ReferenceEvaluate(*recipe), evaluated));
#ifndef NPUBANK_TESTS_SUPPORT_WEIGHTS_REFERENCE_EVALUATE_H_
#define NPUBANK_TESTS_SUPPORT_WEIGHTS_REFERENCE_EVALUATE_H_

#include <cstddef>
#include <vector>

#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank::testing {

// Throws std::runtime_error when a source cannot be read.
std::vector<std::byte> ReferenceEvaluate(const Recipe& recipe);

// Whether two results of this type are equal bit for bit. Where both are NaN, its sign and payload
// are free: no rule says which of two NaN operands an operation hands on.
bool SameElements(const TensorType& type, const std::vector<std::byte>& a,
                  const std::vector<std::byte>& b);

}  // namespace npubank::testing

#endif  // NPUBANK_TESTS_SUPPORT_WEIGHTS_REFERENCE_EVALUATE_H_
