#include "npubank/compiler_stub/compile_options.h"

namespace npubank {

std::optional<WeightFormat> WeightFormatFromName(absl::string_view name) {
  if (name == "auto") return WeightFormat::kAuto;
  if (name == "keep") return WeightFormat::kKeep;
  if (name == "packed") return WeightFormat::kPacked;
  if (name == "f32") return WeightFormat::kF32;
  if (name == "f16") return WeightFormat::kF16;
  if (name == "bf16") return WeightFormat::kBF16;
  return std::nullopt;
}

std::optional<AttentionForm> AttentionFormFromName(absl::string_view name) {
  if (name == "whole") return AttentionForm::kWhole;
  if (name == "perhead") return AttentionForm::kPerHead;
  return std::nullopt;
}

std::optional<Schedule> ScheduleFromName(absl::string_view name) {
  if (name == "serial") return Schedule::kSerial;
  if (name == "parallel") return Schedule::kParallel;
  return std::nullopt;
}

}  // namespace npubank
