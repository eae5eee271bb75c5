// ForeignSubmodel: what another compiler hands over, in a folder: five layers of one function,
// bound to five closures.
//
//   ForeignSubmodel layers(folder);         // layers.json, layer.blob and model.safetensors are there now
//   layers.manifest();                      // the JSON, to change before Rewrite(json)
//   layers.Expected(x);                     // what the five layers make of x, by plain sums
//
// Layer n gives x W[n] + b[n] of its input. All numbers are small integers, so sums are exact in
// any order. The file lies so that a device which wants arguments at multiples of 64 imports what
// is stored.
#ifndef NPUBANK_TESTS_SUPPORT_FOREIGN_NPU_FOREIGN_SUBMODEL_H_
#define NPUBANK_TESTS_SUPPORT_FOREIGN_NPU_FOREIGN_SUBMODEL_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tests/support/foreign_npu/foreign_blob.h"

namespace npubank {

class ForeignSubmodel {
 public:
  static constexpr int kLayers = 5;
  static constexpr int kWidth = 16;
  enum class Weights {
    kStored,     // F32, as they lie in the file
    kConverted,  // transposed and F16
  };

  explicit ForeignSubmodel(std::string folder, Weights weights = Weights::kStored);

  const nlohmann::json& manifest() const { return manifest_; }
  std::string path() const { return folder_ + "/layers.json"; }
  const std::string& blob() const { return blob_; }  // of layer.blob
  // Another manifest, or another blob, in place of what is there.
  void Rewrite(const nlohmann::json& manifest) const;
  void RewriteBlob(const std::string& bytes) const;

  static std::vector<float> Input();
  static std::vector<float> Expected(std::vector<float> x);

 private:
  void WriteModel() const;
  void MakeManifest();

  const std::string folder_;
  const Weights weights_;
  std::string blob_;
  nlohmann::json manifest_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_FOREIGN_NPU_FOREIGN_SUBMODEL_H_
