// DeviceTraits: what the compiler must know of a device: which functions it has over weights as they
// are stored, and how its arguments are aligned.
//
//   DeviceTraits traits;                 // the software NPU's
//   traits.functions = {{OpKind::kMatMul, {ElementType::kF16}}, ...};
//   options.device = traits;             // of every submodel of the model: compile.h
//
// Asked once and given to all submodels of a model, so that they choose the same recipes and a bank
// shares their weights: two submodels compiled for different traits may need a weight twice.
// A value. Threads: plain data.
#ifndef NPUBANK_COMPILER_STUB_DEVICE_TRAITS_H_
#define NPUBANK_COMPILER_STUB_DEVICE_TRAITS_H_

#include <cstdint>
#include <vector>

#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/lazy_tensor/element_type.h"
#include "npubank/lazy_tensor/weight_form.h"

namespace npubank {

struct DeviceTraits {
  // An operation that takes a weight, and the forms it takes it in (weight_form.h).
  struct Functions {
    OpKind kind;
    std::vector<ElementType> plain;
    std::vector<kernels::BlockFormat> blocks = {};
    std::vector<ElementType> planes = {};  // of their numbers
    bool words = false;                    // GPTQ's, AWQ's, and rows of them
  };
  static std::vector<Functions> EveryFunction();
  std::vector<Functions> functions = EveryFunction();

  // A power of two that every argument's address is to be a multiple of: so are the places of the arena,
  // at 64 bytes for less. Compile refuses more than kMostArgumentAlignment, a driver's page.
  static constexpr uint64_t kMostArgumentAlignment = 4096;
  uint64_t argument_alignment = 64;

  // `element` is the first part's.
  bool Has(OpKind kind, const WeightForm& form, ElementType element) const;
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_DEVICE_TRAITS_H_
