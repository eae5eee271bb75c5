// CompileOptions: which submodel of a model Compile makes, and how.
//
//   CompileOptions options;
//   options.name = "kvcache";
//   options.weights = WeightFormat::kF16;
//
// The names of formats, forms and schedules are those of the command line; nullopt for any other.
#ifndef NPUBANK_COMPILER_STUB_COMPILE_OPTIONS_H_
#define NPUBANK_COMPILER_STUB_COMPILE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/device_traits.h"
#include "npubank/compiler_stub/planner/lifetimes.h"

namespace npubank {

// How weights lie on the device.
enum class WeightFormat {
  // As the checkpoint stores them where the device has a function for that; else packed, else F16.
  kAuto,
  // As the checkpoint stores them: nothing to transform, so nothing to copy where import works.
  kKeep,
  // In planes of integers, scales and zero points, where those hold the values exactly.
  kPacked,
  // The others: matrices transposed to [in, out], then converted; tables and norms converted.
  kF32,
  kF16,
  kBF16,
};
// "auto", "keep", "packed", "f32", "f16", "bf16".
std::optional<WeightFormat> WeightFormatFromName(absl::string_view name);

// How attention works through the query heads.
enum class AttentionForm {
  kWhole,    // scores of all heads at once: [heads, S, N]
  kPerHead,  // one head after the other: [1, S, N], less memory, more operations
};
std::optional<AttentionForm> AttentionFormFromName(absl::string_view name);  // "whole", "perhead"
std::optional<Schedule> ScheduleFromName(absl::string_view name);            // "serial", "parallel"

struct CompileOptions {
  std::string name;
  int64_t chunk = 1;
  int64_t context = 512;
  WeightFormat weights = WeightFormat::kAuto;
  AttentionForm attention = AttentionForm::kWhole;
  // What the plan of a function's scratch allows: its operations in order only, or in any order
  // that their values allow.
  Schedule schedule = Schedule::kSerial;
  // Of the device that will run it: the same for all submodels of a model, so that they choose the
  // same recipes.
  DeviceTraits device = {};
  // Told of each weight that kAuto does not use as it is stored, by each operation that takes it: its name, and what
  // it is and becomes, "BF16 to F16", "AWQ words to planes". From within Compile.
  std::function<void(absl::string_view tensor, absl::string_view becomes)> converted = {};
  // False gives every value memory of its own: to prove that sharing changes no result.
  bool reuse = true;
};

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_COMPILE_OPTIONS_H_
