#include "npubank/tests/support/weights/test_weights.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {
namespace {

TensorType MakeType(ElementType element, std::vector<int64_t> dims) {
  return TensorType::Create(element, Shape::Create(dims).value()).value();
}

// The half-precision bits of a whole number below 2048, where every one is exact.
uint16_t HalfOf(uint32_t number) {
  if (number == 0) return 0;
  int exponent = 0;
  while (number >> (exponent + 1) != 0) ++exponent;
  return static_cast<uint16_t>((exponent + 15) << 10 | ((number << 10 >> exponent) & 0x3ff));
}

}  // namespace

TestWeights::TestWeights(int layers, int variant) : layers_(layers), variant_(variant) {
  WriteFile();
}

void TestWeights::Rewrite() {
  ++variant_;
  const auto written = std::filesystem::last_write_time(path_);
  WriteFile();
  // A file system's clock may tick too slowly to tell the two apart.
  std::filesystem::last_write_time(path_, written + std::chrono::seconds(1));
}

void TestWeights::WriteFile() {
  std::string bytes;
  for (int layer = 0; layer < layers_; ++layer) {
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        const float value = Value(layer, row, column);
        bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
      }
    }
  }
  path_ = folder_.Write("weights.bin", bytes);
}

// Whole numbers below 2048 for up to a hundred layers: exact in every type the tests convert to.
float TestWeights::Value(int layer, int row, int column) const {
  const int base = layer * 7 + row * kColumns + column;
  return static_cast<float>(base + (layer == layers_ - 1 ? variant_ : 0));
}

std::vector<LazyTensor> TestWeights::Submodel() const {
  const std::shared_ptr<Source> file = Source::OpenFile(path_).value();
  const TensorType type = MakeType(ElementType::kF32, {kRows, kColumns});
  std::vector<LazyTensor> tensors;
  for (int layer = 0; layer < layers_; ++layer) {
    const LazyTensor stored =
        LazyTensor::Constant(file, layer * type.bytes(), type, absl::StrCat("layer", layer))
            .value();
    tensors.push_back(stored.Permute({1, 0}).value().Convert(ElementType::kF16).value());
    tensors.push_back(stored.Slice({0, 0}, {1, kColumns}).value());
  }
  return tensors;
}

std::shared_ptr<const SourceIndex> TestWeights::Index() const {
  auto index = std::make_shared<SourceIndex>(path_);
  const uint32_t file = index->AddFile(SourceOpener::Path(path_)).value();
  const TensorType type = MakeType(ElementType::kF32, {kRows, kColumns});
  for (int layer = 0; layer < layers_; ++layer) {
    const absl::Status added = index->Add(
        {absl::StrCat("layer", layer), type, file, static_cast<uint64_t>(layer) * type.bytes()});
    if (!added.ok()) std::abort();
  }
  return index;
}

std::string TestWeights::Name(size_t tensor) {
  return absl::StrCat("layers.", tensor / kTensorsPerLayer,
                      tensor % kTensorsPerLayer == 0 ? ".transposed" : ".row");
}

std::vector<std::byte> TestWeights::Expected(size_t tensor) const {
  const int layer = static_cast<int>(tensor) / kTensorsPerLayer;
  std::vector<std::byte> bytes;
  if (tensor % kTensorsPerLayer == 1) {
    bytes.resize(kColumns * sizeof(float));
    for (int column = 0; column < kColumns; ++column) {
      const float value = Value(layer, 0, column);
      std::memcpy(bytes.data() + column * sizeof(value), &value, sizeof(value));
    }
    return bytes;
  }
  bytes.resize(kRows * kColumns * sizeof(uint16_t));
  for (int column = 0; column < kColumns; ++column) {
    for (int row = 0; row < kRows; ++row) {
      const uint16_t half = HalfOf(static_cast<uint32_t>(Value(layer, row, column)));
      std::memcpy(bytes.data() + (column * kRows + row) * sizeof(half), &half, sizeof(half));
    }
  }
  return bytes;
}

uint64_t TestWeights::Bytes() const {
  return layers_ * (kRows * kColumns * sizeof(uint16_t) + kColumns * sizeof(float));
}

std::vector<LazyTensor> VectorsOver(const std::shared_ptr<Source>& source, int64_t elements) {
  const TensorType type = MakeType(ElementType::kF32, {elements});
  std::vector<LazyTensor> tensors;
  for (uint64_t offset = 0; offset + type.bytes() <= source->size(); offset += type.bytes()) {
    tensors.push_back(
        LazyTensor::Constant(source, offset, type, absl::StrCat("stored", tensors.size())).value());
  }
  return tensors;
}

std::vector<std::byte> CountingFloats(size_t count, float first) {
  std::vector<std::byte> bytes(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    const float value = first + static_cast<float>(i);
    std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
  }
  return bytes;
}

std::vector<std::byte> HostBytesAt(const void* address, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(address);
  return std::vector<std::byte>(begin, begin + bytes);
}

}  // namespace npubank
