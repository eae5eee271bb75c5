#include "npubank/lazy_tensor/formats/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/byte_budget.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"

namespace npubank {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 256;  // ggml itself stops at 64
constexpr uint64_t kMaxAlignment = 1 << 20;

// Type numbers of metadata values.
enum ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// What ggml's type numbers stand for.
struct Layout {
  GgufFormat format;
  absl::string_view name;
  int64_t elements;  // in each block of `bytes`; 1 for plain numbers
  uint64_t bytes;
};

std::optional<Layout> LayoutOf(uint32_t number) {
  static constexpr std::pair<uint32_t, ElementType> kPlain[] = {
      {0, ElementType::kF32},  {1, ElementType::kF16},  {24, ElementType::kI8},
      {25, ElementType::kI16}, {26, ElementType::kI32}, {27, ElementType::kI64},
      {28, ElementType::kF64}, {30, ElementType::kBF16}};
  for (const auto& [plain, element] : kPlain) {
    if (plain == number) return Layout{element, ElementTypeName(element), 1, BitWidth(element) / 8u};
  }
  const std::optional<kernels::BlockFormat> blocks = kernels::BlockFormatFromNumber(number);
  if (!blocks) return std::nullopt;
  return Layout{*blocks, kernels::BlockFormatName(*blocks),
                static_cast<int64_t>(kernels::BlockLength(*blocks)),
                kernels::BlockBytes(*blocks)};
}

// Reads a source front to back through a small buffer. The first fault is kept and turns every
// later answer into zero, so that readers can check once after a group of fields.
class Cursor {
 public:
  explicit Cursor(const Source& source) : source_(source) {}

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  uint64_t position() const { return position_; }
  uint64_t left() const { return source_.size() - position_; }

  void Fail(absl::string_view what) {
    if (ok()) status_ = absl::InvalidArgumentError(what);
  }

  void Read(void* out, uint64_t size) {
    if (ok() && size > left()) Fail("truncated: the header goes beyond the end of the file");
    auto* at = static_cast<std::byte*>(out);
    while (ok() && size > 0) {
      if (position_ - buffer_begin_ >= buffer_size_) Refill();
      if (!ok()) break;
      const uint64_t skip = position_ - buffer_begin_;
      const uint64_t take = std::min(size, buffer_size_ - skip);
      std::memcpy(at, buffer_.data() + skip, take);
      at += take;
      size -= take;
      position_ += take;
    }
    if (size > 0) std::memset(at, 0, size);
  }

  // A little-endian number of sizeof(Bits) bytes.
  template <typename Bits>
  Bits Unsigned() {
    std::array<uint8_t, sizeof(Bits)> raw;
    Read(raw.data(), raw.size());
    uint64_t value = 0;
    for (size_t i = raw.size(); i-- > 0;) value = value << 8 | raw[i];
    return static_cast<Bits>(value);
  }

  std::string String(uint64_t max_bytes) {
    const auto length = Unsigned<uint64_t>();
    if (ok() && length > left()) {
      Fail(absl::StrCat("a string of ", length, " bytes goes beyond the end of the file"));
    }
    if (length > max_bytes) {
      Fail(absl::StrCat("a string of ", length, " bytes is longer than ", max_bytes));
    }
    if (ok()) status_ = text_.Spend(length);
    if (!ok()) return "";
    std::string text(length, '\0');
    Read(text.data(), length);
    return text;
  }

 private:
  void Refill() {
    buffer_begin_ = position_;
    buffer_size_ = std::min<uint64_t>(buffer_.size(), left());
    status_ = source_.Read(position_, absl::MakeSpan(buffer_.data(), buffer_size_));
  }

  const Source& source_;
  absl::Status status_;
  uint64_t position_ = 0;
  ByteBudget text_{Gguf::kMaxTextBytes, "text"};
  std::array<std::byte, 16384> buffer_;
  uint64_t buffer_begin_ = 0;
  uint64_t buffer_size_ = 0;
};

class Reader {
 public:
  explicit Reader(const Source& source) : size_(source.size()), in_(source) {}

  absl::StatusOr<Gguf> Read() {
    NPUBANK_RETURN_IF_ERROR(ReadCounts());
    for (uint64_t i = 0; i < key_count_; ++i) NPUBANK_RETURN_IF_ERROR(ReadKey());
    NPUBANK_RETURN_IF_ERROR(ReadAlignment());
    for (uint64_t i = 0; i < tensor_count_; ++i) NPUBANK_RETURN_IF_ERROR(ReadTensor());
    NPUBANK_RETURN_IF_ERROR(PlaceTensors());
    return std::move(file_);
  }

 private:
  absl::Status ReadCounts() {
    std::array<char, 4> magic;
    in_.Read(magic.data(), magic.size());
    const auto version = in_.Unsigned<uint32_t>();
    tensor_count_ = in_.Unsigned<uint64_t>();
    key_count_ = in_.Unsigned<uint64_t>();
    NPUBANK_RETURN_IF_ERROR(in_.status());
    if (absl::string_view(magic.data(), magic.size()) != "GGUF") {
      return absl::InvalidArgumentError("is not a GGUF file");
    }
    if (version == 0x02000000 || version == 0x03000000) {
      return absl::InvalidArgumentError("is big-endian; only little-endian files are supported");
    }
    if (version != 2 && version != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("is GGUF version ", version, "; supported are 2 and 3"));
    }
    if (tensor_count_ > Gguf::kMaxTensors || key_count_ > Gguf::kMaxKeys) {
      return absl::InvalidArgumentError(absl::StrCat(tensor_count_, " tensors and ", key_count_,
                                                     " metadata keys are over the limits of ",
                                                     Gguf::kMaxTensors, " and ", Gguf::kMaxKeys));
    }
    return absl::OkStatus();
  }

  absl::Status ReadKey() {
    const std::string key = in_.String(kMaxKeyBytes);
    const auto type = in_.Unsigned<uint32_t>();
    GgufValue value = ReadValue(type, 0);
    if (!in_.ok()) return Annotate(in_.status(), absl::StrCat("metadata ", Quote(key)));
    if (!file_.metadata.try_emplace(key, std::move(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat("metadata ", Quote(key), " appears twice"));
    }
    return absl::OkStatus();
  }

  GgufValue ReadValue(uint32_t type, int depth) {
    switch (type) {
      case kUint8:
        return {uint64_t{in_.Unsigned<uint8_t>()}};
      case kUint16:
        return {uint64_t{in_.Unsigned<uint16_t>()}};
      case kUint32:
        return {uint64_t{in_.Unsigned<uint32_t>()}};
      case kUint64:
        return {in_.Unsigned<uint64_t>()};
      case kInt8:
        return {int64_t{static_cast<int8_t>(in_.Unsigned<uint8_t>())}};
      case kInt16:
        return {int64_t{static_cast<int16_t>(in_.Unsigned<uint16_t>())}};
      case kInt32:
        return {int64_t{static_cast<int32_t>(in_.Unsigned<uint32_t>())}};
      case kInt64:
        return {static_cast<int64_t>(in_.Unsigned<uint64_t>())};
      case kFloat32:
        return {double{std::bit_cast<float>(in_.Unsigned<uint32_t>())}};
      case kFloat64:
        return {std::bit_cast<double>(in_.Unsigned<uint64_t>())};
      case kBool:
        return {ReadBool()};
      case kString:
        return {in_.String(Gguf::kMaxStringBytes)};
      case kArray:
        return {ReadArray(depth + 1)};
      default:
        in_.Fail(absl::StrCat("unknown value type ", type));
        return {};
    }
  }

  bool ReadBool() {
    const auto byte = in_.Unsigned<uint8_t>();
    if (byte > 1) in_.Fail(absl::StrCat("a boolean must be 0 or 1, not ", byte));
    return byte == 1;
  }

  GgufValue::Array ReadArray(int depth) {
    const auto type = in_.Unsigned<uint32_t>();
    const auto length = in_.Unsigned<uint64_t>();
    if (depth > Gguf::kMaxDepth) {
      in_.Fail(absl::StrCat("arrays nested deeper than ", Gguf::kMaxDepth));
    }
    // An element takes a byte at least, so a length beyond the file is caught before the loop.
    if (in_.ok() && length > in_.left()) {
      in_.Fail(absl::StrCat("an array of ", length, " goes beyond the end of the file"));
    }
    if (in_.ok() && length > Gguf::kMaxValues - values_) {
      in_.Fail(absl::StrCat("more than ", Gguf::kMaxValues, " array elements"));
    }
    GgufValue::Array array;
    if (!in_.ok()) return array;
    values_ += length;
    for (uint64_t i = 0; i < length && in_.ok(); ++i) array.push_back(ReadValue(type, depth));
    return array;
  }

  absl::Status ReadAlignment() {
    const GgufValue* value = file_.Find("general.alignment");
    if (value == nullptr) return absl::OkStatus();
    const auto* number = std::get_if<uint64_t>(&value->value);
    if (number == nullptr || !std::has_single_bit(*number) || *number > kMaxAlignment) {
      return absl::InvalidArgumentError(absl::StrCat(
          "metadata 'general.alignment' must be a power of two up to ", kMaxAlignment));
    }
    alignment_ = *number;
    return absl::OkStatus();
  }

  absl::Status ReadTensor() {
    GgufTensor tensor;
    tensor.name = in_.String(kMaxNameBytes);
    const auto rank = in_.Unsigned<uint32_t>();
    if (rank > Gguf::kMaxRank) {
      in_.Fail(absl::StrCat(rank, " dimensions, more than ", Gguf::kMaxRank));
    }
    std::vector<int64_t> dims;
    for (uint32_t i = 0; i < rank && in_.ok(); ++i) {
      const auto dim = in_.Unsigned<uint64_t>();
      if (in_.ok() && (dim == 0 || dim > uint64_t{std::numeric_limits<int64_t>::max()})) {
        in_.Fail(absl::StrCat("dimension ", dim, " is out of range"));
      }
      dims.push_back(static_cast<int64_t>(dim));
    }
    const auto type = in_.Unsigned<uint32_t>();
    tensor.offset = in_.Unsigned<uint64_t>();
    const absl::Status status = in_.ok() ? Describe(dims, type, tensor) : in_.status();
    if (!status.ok()) return Annotate(status, absl::StrCat("tensor ", Quote(tensor.name)));
    file_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  // Fills in type, shape and size.
  absl::Status Describe(std::vector<int64_t> dims, uint32_t type, GgufTensor& tensor) const {
    const std::optional<Layout> layout = LayoutOf(type);
    if (!layout) {
      return absl::InvalidArgumentError(absl::StrCat("tensor type ", type, " is not supported"));
    }
    tensor.format = layout->format;
    const int64_t row = dims.empty() ? 1 : dims[0];
    if (row % layout->elements != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows of ", row, " are not whole blocks of ", layout->name));
    }
    std::reverse(dims.begin(), dims.end());
    NPUBANK_ASSIGN_OR_RETURN(tensor.shape, Shape::Create(dims));
    const auto blocks = static_cast<uint64_t>(tensor.shape.num_elements() / layout->elements);
    if (blocks > size_ / static_cast<uint64_t>(layout->bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(layout->name, tensor.shape.ToString(),
                                                     " is larger than the file (is it complete?)"));
    }
    tensor.bytes = blocks * layout->bytes;
    return absl::OkStatus();
  }

  // Turns offsets within the data section into offsets within the file.
  absl::Status PlaceTensors() {
    const uint64_t begin = AlignUp(in_.position(), alignment_);
    for (GgufTensor& tensor : file_.tensors) {
      if (tensor.offset % alignment_ != 0) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(tensor.name), ": offset ",
                                                       tensor.offset, " is not a multiple of ",
                                                       alignment_));
      }
      if (begin > size_ || tensor.offset > size_ - begin ||
          tensor.bytes > size_ - begin - tensor.offset) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor ", Quote(tensor.name), ": ", tensor.bytes, " bytes at offset ",
                         tensor.offset, " go beyond the end of the file (is it complete?)"));
      }
      tensor.offset += begin;
    }
    NPUBANK_RETURN_IF_ERROR(CheckNamesDiffer());
    return CheckNoOverlap();
  }

  absl::Status CheckNamesDiffer() {
    std::vector<GgufTensor>& tensors = file_.tensors;
    std::sort(tensors.begin(), tensors.end(),
              [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
    for (size_t i = 1; i < tensors.size(); ++i) {
      if (tensors[i].name == tensors[i - 1].name) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor ", Quote(tensors[i].name), " appears twice"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckNoOverlap() {
    std::vector<GgufTensor>& tensors = file_.tensors;
    std::sort(tensors.begin(), tensors.end(),
              [](const GgufTensor& a, const GgufTensor& b) { return a.offset < b.offset; });
    for (size_t i = 1; i < tensors.size(); ++i) {
      if (tensors[i].offset < tensors[i - 1].offset + tensors[i - 1].bytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "tensors ", Quote(tensors[i - 1].name), " and ", Quote(tensors[i].name), " overlap"));
      }
    }
    return absl::OkStatus();
  }

  const uint64_t size_;
  Cursor in_;
  Gguf file_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t values_ = 0;
  uint64_t alignment_ = 32;
};

// The rows of a tensor as the file has them: numbers, or the bytes of blocks.
absl::StatusOr<TensorType> StoredType(const GgufTensor& tensor) {
  if (const auto* element = std::get_if<ElementType>(&tensor.format)) {
    return TensorType::Create(*element, tensor.shape);
  }
  const absl::Span<const int64_t> shape = tensor.shape.dims();
  std::vector<int64_t> dims(shape.begin(), shape.end());
  const auto format = std::get<kernels::BlockFormat>(tensor.format);
  dims.back() = dims.back() / static_cast<int64_t>(kernels::BlockLength(format)) *
                static_cast<int64_t>(kernels::BlockBytes(format));
  NPUBANK_ASSIGN_OR_RETURN(Shape rows, Shape::Create(dims));
  return TensorType::Create(ElementType::kU8, std::move(rows));
}

}  // namespace

absl::StatusOr<Gguf> ReadGguf(const Source& source) {
  absl::StatusOr<Gguf> file = Reader(source).Read();
  if (!file.ok()) return Annotate(file.status(), source.name());
  return file;
}

absl::StatusOr<Gguf> AppendGguf(uint32_t file, SourceIndex& index) {
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Source> source, index.Open(file));
  NPUBANK_ASSIGN_OR_RETURN(Gguf gguf, ReadGguf(*source));
  for (const GgufTensor& tensor : gguf.tensors) {
    NPUBANK_ASSIGN_OR_RETURN(TensorType type, StoredType(tensor));
    StoredTensor stored = {tensor.name, std::move(type), file, tensor.offset};
    if (const auto* blocks = std::get_if<kernels::BlockFormat>(&tensor.format)) {
      stored.blocks = *blocks;
    }
    NPUBANK_RETURN_IF_ERROR(index.Add(std::move(stored)));
  }
  return gguf;
}

}  // namespace npubank
