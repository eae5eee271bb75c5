// ForeignBlob: a function as the foreign NPU's compiler writes it: opaque bytes, of which only its
// driver (foreign_driver.cc) knows what they mean. Nothing of the project reads them.
//
//   ForeignBlob layer{ForeignOperation::kLayer,
//                     {{"x", false, GraphPrecision::kF32, {1, 4}},
//                      {"weight", false, GraphPrecision::kF16, {4, 4}},
//                      {"bias", false, GraphPrecision::kF32, {1, 4}},
//                      {"y", true, GraphPrecision::kF32, {1, 4}}}};
//   std::string bytes = WriteForeignBlob(layer);
#ifndef NPUBANK_TESTS_SUPPORT_FOREIGN_NPU_FOREIGN_BLOB_H_
#define NPUBANK_TESTS_SUPPORT_FOREIGN_NPU_FOREIGN_BLOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "npubank/runtime/level_zero/graph_extension.h"

namespace npubank {

enum class ForeignOperation : uint8_t {
  kLayer = 1,  // y = x weight + bias
  kSum = 2,    // y = a + b
};

struct ForeignArgument {
  std::string name;
  bool output = false;
  level_zero::GraphPrecision precision = level_zero::GraphPrecision::kF32;
  std::vector<uint32_t> dims;
};

struct ForeignBlob {
  ForeignOperation operation = ForeignOperation::kLayer;
  std::vector<ForeignArgument> arguments;
};

std::string WriteForeignBlob(const ForeignBlob& blob);
// nullopt for anything else, as a driver does.
std::optional<ForeignBlob> ReadForeignBlob(absl::string_view bytes);

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_FOREIGN_NPU_FOREIGN_BLOB_H_
