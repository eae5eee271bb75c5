#include "npubank/lazy_tensor/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/element_type.h"
#include "npubank/lazy_tensor/formats/json.h"

namespace npubank {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr size_t kMaxTensors = size_t{1} << 20;
constexpr size_t kMaxNameBytes = 4096;

// Reads the header's JSON event by event: memory is bounded by what a valid header needs, and
// nesting beyond the format's three levels stops the parser.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(uint64_t data_begin, uint64_t data_size)
      : data_begin_(data_begin), data_size_(data_size) {}

  std::vector<TensorEntry> TakeEntries() { return std::move(entries_); }
  const std::string& fault() const { return fault_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected(absl::StrCat("number ", Quote(text)));
  }
  bool binary(binary_t&) override { return Unexpected("a binary value"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (where_ == Where::kShape) return AddDimension(value);
    if (where_ == Where::kOffsets) return AddOffset(value);
    return Unexpected("a number");
  }

  bool string(string_t& value) override {
    if (where_ == Where::kMetadata) return true;
    if (where_ != Where::kTensor || field_ != Field::kDtype) return Unexpected("a string");
    element_ = ElementTypeFromName(value);
    if (!element_) return Fail(absl::StrCat("unknown dtype ", Quote(value)));
    return true;
  }

  bool start_object(std::size_t) override {
    if (where_ == Where::kOutside) {
      where_ = Where::kNames;
    } else if (where_ == Where::kNames) {
      where_ = name_ == "__metadata__" ? Where::kMetadata : Where::kTensor;
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ != Where::kTensor || field_ == Field::kDtype) return Unexpected("an array");
    where_ = field_ == Field::kShape ? Where::kShape : Where::kOffsets;
    return true;
  }

  bool end_array() override {
    where_ = Where::kTensor;
    return true;
  }

  bool end_object() override {
    if (where_ == Where::kTensor && !FinishTensor()) return false;
    where_ = where_ == Where::kNames ? Where::kOutside : Where::kNames;
    return true;
  }

  bool key(string_t& text) override {
    if (where_ == Where::kMetadata) return true;
    if (where_ == Where::kTensor) return StartField(text);
    in_tensor_ = false;
    if (text.size() > kMaxNameBytes) {
      return Fail(
          absl::StrCat("a tensor name of ", text.size(), " bytes, more than ", kMaxNameBytes));
    }
    if (text == "__metadata__" && std::exchange(seen_metadata_, true)) {
      return Fail("'__metadata__' twice");
    }
    StartTensor(std::move(text));
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fault_ = absl::StrCat("header is not valid JSON at its byte ", position);
    return false;
  }

 private:
  enum class Where { kOutside, kNames, kMetadata, kTensor, kShape, kOffsets };
  enum class Field { kDtype, kShape, kOffsets };

  bool Fail(absl::string_view what) {
    fault_ = in_tensor_ ? absl::StrCat("tensor ", Quote(name_), ": ", what) : std::string(what);
    return false;
  }
  bool Unexpected(absl::string_view what) {
    return Fail(absl::StrCat(what, " where the header must not have it"));
  }

  void StartTensor(std::string name) {
    name_ = std::move(name);
    in_tensor_ = true;
    seen_ = {};
    element_.reset();
    dims_.clear();
    offsets_.clear();
  }

  bool StartField(absl::string_view text) {
    if (text == "dtype") {
      field_ = Field::kDtype;
    } else if (text == "shape") {
      field_ = Field::kShape;
    } else if (text == "data_offsets") {
      field_ = Field::kOffsets;
    } else {
      return Fail(absl::StrCat("unknown field ", Quote(text)));
    }
    if (std::exchange(seen_[static_cast<size_t>(field_)], true)) {
      return Fail(absl::StrCat("field ", Quote(text), " twice"));
    }
    return true;
  }

  bool AddDimension(uint64_t value) {
    if (dims_.size() >= Shape::kMaxRank) {
      return Fail(absl::StrCat("more than ", Shape::kMaxRank, " dimensions"));
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(absl::StrCat("dimension ", value, " is too large"));
    }
    dims_.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool AddOffset(uint64_t value) {
    if (offsets_.size() >= 2) return Fail("data_offsets must be [begin, end]");
    offsets_.push_back(value);
    return true;
  }

  bool FinishTensor() {
    for (bool seen : seen_) {
      if (!seen) return Fail("needs dtype, shape and data_offsets");
    }
    if (offsets_.size() != 2) return Fail("data_offsets must be [begin, end]");
    const uint64_t begin = offsets_[0];
    const uint64_t end = offsets_[1];
    if (begin > end || end > data_size_) {
      return Fail(absl::StrCat("data_offsets [", begin, ", ", end, "] are not within the ",
                               data_size_, " bytes of data (is the file complete?)"));
    }
    absl::StatusOr<Shape> shape = Shape::Create(dims_);
    if (!shape.ok()) return Fail(shape.status().message());
    absl::StatusOr<TensorType> type = TensorType::Create(*element_, *std::move(shape));
    if (!type.ok()) return Fail(type.status().message());
    if (end - begin != type->bytes()) {
      return Fail(absl::StrCat(type->ToString(), " is ", type->bytes(),
                               " bytes, but data_offsets hold ", end - begin));
    }
    if (entries_.size() >= kMaxTensors) {
      return Fail(absl::StrCat("more than ", kMaxTensors, " tensors"));
    }
    entries_.push_back({std::move(name_), *std::move(type), data_begin_ + begin});
    in_tensor_ = false;
    return true;
  }

  const uint64_t data_begin_;
  const uint64_t data_size_;
  Where where_ = Where::kOutside;
  bool seen_metadata_ = false;
  std::vector<TensorEntry> entries_;
  std::string fault_;
  // The tensor being read.
  bool in_tensor_ = false;
  std::string name_;
  Field field_ = Field::kDtype;
  std::array<bool, 3> seen_ = {};  // by Field
  std::optional<ElementType> element_;
  std::vector<int64_t> dims_;
  std::vector<uint64_t> offsets_;
};

absl::StatusOr<uint64_t> ReadHeaderLength(const Source& source) {
  std::array<std::byte, 8> raw;
  if (source.size() < raw.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("truncated: ", source.size(), " bytes, less than the header length takes"));
  }
  NPUBANK_RETURN_IF_ERROR(source.Read(0, absl::MakeSpan(raw)));
  uint64_t length = 0;
  for (size_t i = raw.size(); i-- > 0;) length = length << 8 | static_cast<uint64_t>(raw[i]);
  if (length > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header length ", length, " is over the limit of ", kMaxHeaderBytes, " bytes"));
  }
  if (length > source.size() - raw.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header length ", length, " is beyond the end of the file (", source.size(), " bytes)"));
  }
  return length;
}

absl::Status CheckNamesDiffer(const std::vector<TensorEntry>& entries) {
  std::vector<const std::string*> names;
  names.reserve(entries.size());
  for (const TensorEntry& entry : entries) names.push_back(&entry.name);
  std::sort(names.begin(), names.end(), [](auto* a, auto* b) { return *a < *b; });
  const auto twin =
      std::adjacent_find(names.begin(), names.end(), [](auto* a, auto* b) { return *a == *b; });
  if (twin == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(**twin), " appears twice"));
}

// `entries` are sorted by offset.
absl::Status CheckNoOverlap(const std::vector<TensorEntry>& entries) {
  const TensorEntry* last = nullptr;  // the last one that has bytes
  for (const TensorEntry& entry : entries) {
    if (entry.type.bytes() == 0) continue;
    if (last != nullptr && entry.offset < last->offset + last->type.bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors ", Quote(last->name), " and ", Quote(entry.name), " overlap"));
    }
    last = &entry;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorEntry>> ReadEntries(const Source& source) {
  NPUBANK_ASSIGN_OR_RETURN(const uint64_t length, ReadHeaderLength(source));
  std::string header(length, '\0');
  NPUBANK_RETURN_IF_ERROR(
      source.Read(8, absl::MakeSpan(reinterpret_cast<std::byte*>(header.data()), header.size())));
  const uint64_t data_begin = 8 + length;
  HeaderReader reader(data_begin, source.size() - data_begin);
  if (!nlohmann::json::sax_parse(header, &reader)) {
    return absl::InvalidArgumentError(reader.fault());
  }
  std::vector<TensorEntry> entries = reader.TakeEntries();
  NPUBANK_RETURN_IF_ERROR(CheckNamesDiffer(entries));
  std::sort(entries.begin(), entries.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.offset < b.offset; });
  NPUBANK_RETURN_IF_ERROR(CheckNoOverlap(entries));
  return entries;
}

}  // namespace

absl::StatusOr<std::vector<TensorEntry>> ReadSafetensors(const Source& source) {
  absl::StatusOr<std::vector<TensorEntry>> entries = ReadEntries(source);
  if (!entries.ok()) return Annotate(entries.status(), source.name());
  return entries;
}

absl::Status AppendSafetensors(uint32_t file, SourceIndex& index) {
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Source> source, index.Open(file));
  NPUBANK_ASSIGN_OR_RETURN(std::vector<TensorEntry> entries, ReadSafetensors(*source));
  for (TensorEntry& entry : entries) {
    NPUBANK_RETURN_IF_ERROR(
        index.Add({std::move(entry.name), std::move(entry.type), file, entry.offset}));
  }
  return absl::OkStatus();
}

}  // namespace npubank
