// Random weights in every form, with the numbers that plain loops of this file's own read out of them.
//
//   PlainWeight w = RandomWeight(WeightForm::Awq(), ElementType::kI32, 64, 16, 2, /*seed=*/1);
//   w.Operand();          // for a kernel
//   w.numbers;            // F32, row-major
#ifndef NPUBANK_TESTS_UNIT_SOFTWARE_NPU_PLAIN_WEIGHT_H_
#define NPUBANK_TESTS_UNIT_SOFTWARE_NPU_PLAIN_WEIGHT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "npubank/runtime/software_npu/kernels/weight_operand.h"

namespace npubank::software_npu {

struct PlainWeight {
  WeightForm form;
  ElementType element;
  ElementType scale;
  int64_t rows;     // of the matrix of numbers
  int64_t columns;
  int64_t groups;
  std::vector<std::vector<uint8_t>> parts;
  std::vector<float> numbers;

  WeightOperand Operand() const;
  std::string ToString() const;
};

// A matrix [rows, columns] of numbers, K in `groups` groups. `element` is of planes; scales are F16, or BF16
// for an odd seed.
PlainWeight RandomWeight(WeightForm form, ElementType element, int64_t rows, int64_t columns,
                         int64_t groups, uint32_t seed);

// One of every form, and of every group size that makes a difference to how they are read.
std::vector<PlainWeight> EveryWeight();

}  // namespace npubank::software_npu

#endif  // NPUBANK_TESTS_UNIT_SOFTWARE_NPU_PLAIN_WEIGHT_H_
