// F32Checkpoint: a Hugging Face folder of F32 tensors that a test computed itself.
//
//   F32Checkpoint reference(config_json);
//   reference.Add("model.norm.weight", {64}, values);
//   reference.Write();
//   options.model = reference.folder();
#ifndef NPUBANK_TESTS_INTEGRATION_WEIGHTS_F32_CHECKPOINT_H_
#define NPUBANK_TESTS_INTEGRATION_WEIGHTS_F32_CHECKPOINT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "npubank/tests/support/temporary_folder.h"

namespace npubank {

class F32Checkpoint {
 public:
  explicit F32Checkpoint(std::string config) : config_(std::move(config)) {}

  void Add(const std::string& name, const std::vector<int64_t>& shape,
           const std::vector<float>& values) {
    const size_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header_[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }

  void Write() const {
    const std::string header = header_.dump();
    const uint64_t length = header.size();
    folder_.Write(
        "model.safetensors",
        std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data_);
    folder_.Write("config.json", config_);
  }

  std::string folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::string config_;
  nlohmann::json header_ = nlohmann::json::object();
  std::string data_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_INTEGRATION_WEIGHTS_F32_CHECKPOINT_H_
