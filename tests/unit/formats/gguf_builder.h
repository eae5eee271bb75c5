// Writes the bytes of a GGUF file field by field, so that a test can forge any of them.
//
//   GgufBuilder file;
//   file.Text("general.architecture", "llama").Number("llama.block_count", 2);
//   file.Tensor("token_embd.weight", {64, 512}, /*type=*/0, /*offset=*/0);
//   std::string bytes = file.Finish(/*data_bytes=*/64 * 512 * 4);
#ifndef NPUBANK_TESTS_UNIT_FORMATS_GGUF_BUILDER_H_
#define NPUBANK_TESTS_UNIT_FORMATS_GGUF_BUILDER_H_

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace npubank {

// Type numbers of metadata values.
inline constexpr uint32_t kGgufUint32 = 4;
inline constexpr uint32_t kGgufInt32 = 5;
inline constexpr uint32_t kGgufFloat32 = 6;
inline constexpr uint32_t kGgufBool = 7;
inline constexpr uint32_t kGgufString = 8;
inline constexpr uint32_t kGgufArray = 9;

class GgufBuilder {
 public:
  static std::string Little(uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  }
  static std::string String(const std::string& text) { return Little(text.size(), 8) + text; }
  static std::string Float(float value) { return Little(std::bit_cast<uint32_t>(value), 4); }

  // A metadata entry of any kind: `payload` follows the type number.
  GgufBuilder& Raw(const std::string& key, uint32_t type, const std::string& payload) {
    metadata_ += String(key) + Little(type, 4) + payload;
    ++keys_;
    return *this;
  }
  GgufBuilder& Number(const std::string& key, uint32_t value) {
    return Raw(key, kGgufUint32, Little(value, 4));
  }
  GgufBuilder& Real(const std::string& key, float value) {
    return Raw(key, kGgufFloat32, Float(value));
  }
  GgufBuilder& Text(const std::string& key, const std::string& value) {
    return Raw(key, kGgufString, String(value));
  }
  // Each element's bytes, one after the other.
  GgufBuilder& Array(const std::string& key, uint32_t type,
                     const std::vector<std::string>& elements) {
    std::string payload = Little(type, 4) + Little(elements.size(), 8);
    for (const std::string& element : elements) payload += element;
    return Raw(key, kGgufArray, payload);
  }
  // Dimensions fastest first, as in the file.
  GgufBuilder& Tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                      uint64_t offset) {
    tensors_ += String(name) + Little(dims.size(), 4);
    for (const uint64_t dim : dims) tensors_ += Little(dim, 8);
    tensors_ += Little(type, 4) + Little(offset, 8);
    ++tensor_count_;
    return *this;
  }

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> forged_tensor_count;
  std::optional<uint64_t> forged_key_count;

  std::string Finish(size_t data_bytes, size_t alignment = 32) const {
    std::string bytes = magic + Little(version, 4) +
                        Little(forged_tensor_count.value_or(tensor_count_), 8) +
                        Little(forged_key_count.value_or(keys_), 8) + metadata_ + tensors_;
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
    for (size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i * 7);
    return bytes;
  }

 private:
  std::string metadata_;
  std::string tensors_;
  uint64_t keys_ = 0;
  uint64_t tensor_count_ = 0;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_UNIT_FORMATS_GGUF_BUILDER_H_
