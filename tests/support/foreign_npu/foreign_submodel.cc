#include "npubank/tests/support/foreign_npu/foreign_submodel.h"

#include <cstddef>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace npubank {
namespace {

using Json = nlohmann::json;
using level_zero::GraphPrecision;

// -1, 0 or 1.
float Weight(int layer, int row, int column) {
  return static_cast<float>((layer * 7 + row * 5 + column * 3 + row * column) % 3 - 1);
}
float Bias(int layer, int column) { return static_cast<float>((layer + column) % 4); }

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void AppendFloat(float number, std::string& to) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  to.append(bytes, sizeof(bytes));
}

std::string NameOf(int layer, const char* what) {
  return absl::StrCat("layers.", layer, ".", what);
}

}  // namespace

ForeignSubmodel::ForeignSubmodel(std::string folder, Weights weights)
    : folder_(std::move(folder)), weights_(weights) {
  const GraphPrecision precision =
      weights == Weights::kStored ? GraphPrecision::kF32 : GraphPrecision::kF16;
  blob_ = WriteForeignBlob({ForeignOperation::kLayer,
                            {{"x", false, GraphPrecision::kF32, {1, kWidth}},
                             {"weight", false, precision, {kWidth, kWidth}},
                             {"bias", false, GraphPrecision::kF32, {1, kWidth}},
                             {"y", true, GraphPrecision::kF32, {1, kWidth}}}});
  RewriteBlob(blob_);
  WriteModel();
  MakeManifest();
  Rewrite(manifest_);
}

void ForeignSubmodel::Rewrite(const Json& manifest) const { WriteFile(path(), manifest.dump(1)); }
void ForeignSubmodel::RewriteBlob(const std::string& bytes) const {
  WriteFile(folder_ + "/layer.blob", bytes);
}

// A safetensors file whose data begins at a multiple of 64. What is to be transposed is stored so.
void ForeignSubmodel::WriteModel() const {
  Json header;
  std::string data;
  const auto add = [&](const std::string& name, const std::vector<int>& dims, std::string bytes) {
    header[name] = {{"dtype", "F32"},
                    {"shape", dims},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    std::string weight;
    std::string bias;
    for (int i = 0; i < kWidth; ++i) {
      for (int j = 0; j < kWidth; ++j)
        AppendFloat(weights_ == Weights::kStored ? Weight(layer, i, j) : Weight(layer, j, i),
                    weight);
      AppendFloat(Bias(layer, i), bias);
    }
    add(NameOf(layer, "weight"), {kWidth, kWidth}, weight);
    add(NameOf(layer, "bias"), {1, kWidth}, bias);
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  std::string file;
  const uint64_t length = text.size();
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(length >> (8 * i)));
  WriteFile(folder_ + "/model.safetensors", file + text + data);
}

// Hidden states take turns in two places of the arena.
void ForeignSubmodel::MakeManifest() {
  const auto value = [](const std::string& name, const char* place) {
    return Json{{"name", name}, {"type", "F32"}, {"dims", {1, kWidth}}, {"place", place}};
  };
  manifest_ = {{"npubank_manifest", 1},
               {"name", "layers"},
               {"model", "model.safetensors"},
               {"arena_bytes", 128},
               {"functions", {{{"name", "layer"}, {"file", "layer.blob"}}}},
               {"values", {value("x", "input"), value("y", "output")}},
               {"weights", Json::array()},
               {"calls", Json::array()}};
  std::string input = "x";
  for (int layer = 0; layer < kLayers; ++layer) {
    Json words = {NameOf(layer, "weight")};
    if (weights_ == Weights::kConverted) {
      words.push_back({{"permute", {1, 0}}});
      words.push_back({{"convert", "F16"}});
    }
    manifest_["weights"].push_back({{"name", absl::StrCat("w", layer)}, {"tensor", words}});
    manifest_["weights"].push_back(
        {{"name", absl::StrCat("b", layer)}, {"tensor", Json::array({NameOf(layer, "bias")})}});
    const std::string output = layer == kLayers - 1 ? "y" : absl::StrCat("h", layer);
    if (output != "y") {
      Json hidden = value(output, "arena");
      hidden["offset"] = layer % 2 * 64;
      manifest_["values"].push_back(hidden);
    }
    manifest_["calls"].push_back(
        {{"name", absl::StrCat("layer ", layer)},
         {"function", "layer"},
         {"arguments", Json::array({{{"name", "x"}, {"value", input}},
                                    {{"name", "weight"}, {"weight", absl::StrCat("w", layer)}},
                                    {{"name", "bias"}, {"weight", absl::StrCat("b", layer)}},
                                    {{"name", "y"}, {"value", output}}})}});
    input = output;
  }
}

std::vector<float> ForeignSubmodel::Input() {
  std::vector<float> x;
  for (int i = 0; i < kWidth; ++i) x.push_back(static_cast<float>(i % 4 - 1));
  return x;
}

std::vector<float> ForeignSubmodel::Expected(std::vector<float> x) {
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<float> y(kWidth);
    for (int j = 0; j < kWidth; ++j) {
      y[j] = Bias(layer, j);
      for (int i = 0; i < kWidth; ++i) y[j] += x[i] * Weight(layer, i, j);
    }
    x = y;
  }
  return x;
}

}  // namespace npubank
