#include "npubank/tools/checkpoints/container_headers.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <vector>

#include "npubank/lazy_tensor/base/align.h"
#include "npubank/tools/checkpoints/made_up_network.h"

namespace npubank {
namespace {

// Keeps the order.
using Json = nlohmann::ordered_json;

constexpr uint64_t kGgufAlignment = 32;

template <typename Number>
std::string Little(Number number, size_t bytes = sizeof(Number)) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(static_cast<uint64_t>(number) >> (8 * i));
  return text;
}

std::string Text(const std::string& text) { return Little(uint64_t{text.size()}) + text; }

// Metadata, a key at a time.
class GgufMetadata {
 public:
  void Number(const std::string& key, int64_t value) {
    Add(key, 4, Little(static_cast<uint32_t>(value)));
  }
  void Real(const std::string& key, float value) {
    Add(key, 6, Little(std::bit_cast<uint32_t>(value)));
  }
  void String(const std::string& key, const std::string& value) { Add(key, 8, Text(value)); }

  uint64_t keys() const { return keys_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void Add(const std::string& key, uint32_t type, const std::string& payload) {
    bytes_ += Text(key) + Little(type) + payload;
    ++keys_;
  }
  uint64_t keys_ = 0;
  std::string bytes_;
};

GgufMetadata MetadataOf(const CheckpointShape& shape) {
  GgufMetadata metadata;
  const Json all = MadeUpNetwork(shape).Metadata();
  for (const auto& [key, value] : all.items()) {
    if (value.is_string()) {
      metadata.String(key, value);
    } else if (value.is_number_float()) {
      metadata.Real(key, value);
    } else {
      metadata.Number(key, value);
    }
  }
  return metadata;
}

}  // namespace

std::string SafetensorsHeader(absl::Span<const LaidOutTensor> tensors, size_t alignment) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const LaidOutTensor& tensor : tensors) {
    const absl::Span<const int64_t> dims = tensor.type.shape().dims();
    header[tensor.name] = {{"dtype", std::string(ElementTypeName(tensor.type.element()))},
                           {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                           {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize(AlignUp(text.size() + 8, alignment) - 8, ' ');
  return Text(text);
}

std::string GgufHeader(const CheckpointShape& shape, absl::Span<const LaidOutTensor> tensors) {
  const GgufMetadata metadata = MetadataOf(shape);
  std::string header = "GGUF" + Little(uint32_t{3}) + Little(uint64_t{tensors.size()}) +
                       Little(metadata.keys()) + metadata.bytes();
  uint64_t offset = 0;
  for (const LaidOutTensor& tensor : tensors) {
    const absl::Span<const int64_t> dims = tensor.type.shape().dims();
    header += Text(tensor.name) + Little(static_cast<uint32_t>(dims.size()));
    for (size_t i = dims.size(); i-- > 0;) header += Little(dims[i]);  // fastest first
    const uint32_t f32 = 0;
    header += Little(tensor.blocks ? static_cast<uint32_t>(*tensor.blocks) : f32) + Little(offset);
    offset += tensor.bytes() + GgufPadding(tensor.bytes());
  }
  header.resize(header.size() + GgufPadding(header.size()), '\0');
  return header;
}

size_t GgufPadding(uint64_t bytes) { return AlignUp(bytes, kGgufAlignment) - bytes; }

}  // namespace npubank
