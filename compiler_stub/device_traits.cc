#include "npubank/compiler_stub/device_traits.h"

#include <algorithm>

namespace npubank {
namespace {

template <typename T>
bool Contains(const std::vector<T>& all, T one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool Takes(const DeviceTraits::Functions& functions, const WeightForm& form, ElementType element) {
  switch (form.kind()) {
    case WeightForm::Kind::kPlain:
      return Contains(functions.plain, element);
    case WeightForm::Kind::kBlocks:
      return Contains(functions.blocks, form.blocks());
    case WeightForm::Kind::kPlanes:
      return Contains(functions.planes, element);
    case WeightForm::Kind::kGptq:
    case WeightForm::Kind::kAwq:
    case WeightForm::Kind::kRows:
      return functions.words;
  }
  return false;
}

}  // namespace

std::vector<DeviceTraits::Functions> DeviceTraits::EveryFunction() {
  using kernels::BlockFormat;
  const std::vector<ElementType> floats = {ElementType::kF32, ElementType::kF16, ElementType::kBF16};
  const std::vector<ElementType> planes = {ElementType::kI4, ElementType::kU4, ElementType::kI8,
                                           ElementType::kU8};
  const std::vector<BlockFormat> blocks = {
      BlockFormat::kQ4_0, BlockFormat::kQ4_1, BlockFormat::kQ5_0, BlockFormat::kQ5_1,
      BlockFormat::kQ8_0, BlockFormat::kQ2_K, BlockFormat::kQ3_K, BlockFormat::kQ4_K,
      BlockFormat::kQ5_K, BlockFormat::kQ6_K, BlockFormat::kIQ4_NL};
  return {{OpKind::kEmbed, floats, blocks, planes},
          {OpKind::kRmsNorm, floats},
          {OpKind::kAddBias, floats},
          {OpKind::kMatMul, floats, blocks, planes, true}};
}

bool DeviceTraits::Has(OpKind kind, const WeightForm& form, ElementType element) const {
  return std::any_of(functions.begin(), functions.end(), [&](const Functions& of) {
    return of.kind == kind && Takes(of, form, element);
  });
}

}  // namespace npubank
