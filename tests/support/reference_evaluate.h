// ReferenceEvaluate: a recipe's bytes by the book: every step on the whole tensor, one element at a
// time, with nothing shared with the evaluator but the reference kernels. Slow, and meant to be
// obviously right.
//
//   EXPECT_EQ(ReferenceEvaluate(*recipe), Evaluated(*recipe));
#ifndef NPUBANK_TESTS_SUPPORT_REFERENCE_EVALUATE_H_
#define NPUBANK_TESTS_SUPPORT_REFERENCE_EVALUATE_H_

#include <cstddef>
#include <vector>

#include "lazy_tensor/recipe.h"

namespace npubank::testing {

// Throws std::runtime_error when a source cannot be read.
std::vector<std::byte> ReferenceEvaluate(const Recipe& recipe);

}  // namespace npubank::testing

#endif  // NPUBANK_TESTS_SUPPORT_REFERENCE_EVALUATE_H_
