// DeviceTraits: what the compiler must know of a device: which functions it has over weights as they
// are stored, how its arguments are aligned, and whether it imports.
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

#include <algorithm>
#include <cstdint>
#include <vector>

#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/lazy_tensor/element_type.h"

namespace npubank {

struct DeviceTraits {
  // An operation that takes a weight, and the element types it takes it in.
  struct Functions {
    OpKind kind;
    std::vector<ElementType> stored;
  };
  std::vector<Functions> functions = {
      {OpKind::kEmbed, {ElementType::kF32, ElementType::kF16, ElementType::kBF16}},
      {OpKind::kRmsNorm, {ElementType::kF32, ElementType::kF16, ElementType::kBF16}},
      {OpKind::kMatMul, {ElementType::kF32, ElementType::kF16, ElementType::kBF16}},
  };

  // A power of two that every argument's address is to be a multiple of: so are the places of the arena,
  // at 64 bytes for less. Compile refuses more than kMostArgumentAlignment, a driver's page.
  static constexpr uint64_t kMostArgumentAlignment = 4096;
  uint64_t argument_alignment = 64;

  // Pages of a file can be arguments where they are, so that a weight kept as it is stored costs no
  // copy. Nothing is chosen by it yet: weight formats are the caller's to name. A format that picks
  // itself, tensor by tensor, will ask.
  bool imports = true;

  bool Has(OpKind kind, ElementType stored) const {
    return std::any_of(functions.begin(), functions.end(), [&](const Functions& f) {
      return f.kind == kind && std::find(f.stored.begin(), f.stored.end(), stored) != f.stored.end();
    });
  }
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_DEVICE_TRAITS_H_
