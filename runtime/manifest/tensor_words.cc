#include "npubank/runtime/manifest/tensor_words.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/kernels/block_planes.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/recipe/recipe_op.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxRank = Shape::kMaxRank;

// An element type by its name.
ElementType ElementOfField(JsonFields& fields, const char* key) {
  const std::string name = fields.Text(key);
  const std::optional<ElementType> element = ElementTypeFromName(name);
  if (!element) fields.Fail(key, absl::StrCat(Quote(name), " is no element type"));
  return element.value_or(ElementType::kF32);
}

kernels::BlockFormat FormatOfField(JsonFields& fields) {
  constexpr uint32_t kNumbers = 64;  // more than there are formats
  const std::string name = fields.Text("format");
  for (uint32_t number = 0; number < kNumbers; ++number) {
    const std::optional<kernels::BlockFormat> format = kernels::BlockFormatFromNumber(number);
    if (format && name == kernels::BlockFormatName(*format)) return *format;
  }
  fields.Fail("format", absl::StrCat(Quote(name), " is no format of blocks"));
  return kernels::BlockFormat::kQ4_0;
}

bool IsOneOf(absl::string_view word, std::initializer_list<absl::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The words of one tensor, over one index.
class WordsReader {
 public:
  explicit WordsReader(const SourceIndex& index) : index_(index) {}

  absl::StatusOr<LazyTensor> Read(const Json& words, const std::string& where) const {
    if (!words.is_array() || words.empty())
      return absl::InvalidArgumentError(absl::StrCat(where, ": a tensor is a list of steps"));
    NPUBANK_ASSIGN_OR_RETURN(LazyTensor tensor, First(words[0], absl::StrCat(where, ", step 0")));
    for (size_t i = 1; i < words.size(); ++i) {
      NPUBANK_ASSIGN_OR_RETURN(tensor, Next(tensor, words[i], absl::StrCat(where, ", step ", i)));
    }
    return tensor;
  }

 private:
  // One step, {"word": with}.
  static absl::Status CheckStep(const Json& step, const std::string& where) {
    if (step.is_object() && step.size() == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": a step is an object with one key, or first a stored tensor's name"));
  }

  static absl::Status Unknown(const std::string& word, const std::string& where) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": there is no ", Quote(word), " that can be done here"));
  }

  // What is with a word where that must be an object.
  static absl::StatusOr<JsonFields> FieldsOf(const Json& with, const std::string& where) {
    if (with.is_object()) return JsonFields(with, where);
    return absl::InvalidArgumentError(absl::StrCat(where, " takes an object"));
  }

  absl::StatusOr<LazyTensor> First(const Json& step, const std::string& where) const {
    if (step.is_string()) {
      absl::StatusOr<LazyTensor> stored =
          LazyTensor::Stored(index_, step.get_ref<const std::string&>());
      if (!stored.ok()) return Annotate(stored.status(), where);
      return stored;
    }
    NPUBANK_RETURN_IF_ERROR(CheckStep(step, where));
    const std::string& word = step.begin().key();
    const std::string here = absl::StrCat(where, ": ", word);
    if (word != "concat" && word != "splat") return Unknown(word, where);
    NPUBANK_ASSIGN_OR_RETURN(JsonFields fields, FieldsOf(step.begin().value(), here));
    absl::StatusOr<LazyTensor> made = word == "concat" ? Concat(fields) : Splat(fields);
    if (!made.ok() && fields.status().ok()) return Annotate(made.status(), here);
    return made;
  }

  absl::StatusOr<LazyTensor> Concat(JsonFields& fields) const {
    fields.OnlyKeys({"axis", "of"});
    const int64_t axis = fields.Int("axis", 0, Shape::kMaxRank);
    fields.Need("of");
    const Json& of = fields.List("of");
    NPUBANK_RETURN_IF_ERROR(fields.status());
    std::vector<LazyTensor> inputs;
    for (size_t i = 0; i < of.size(); ++i) {
      NPUBANK_ASSIGN_OR_RETURN(LazyTensor input, Read(of[i], absl::StrCat("of ", i)));
      inputs.push_back(std::move(input));
    }
    return LazyTensor::Concat(inputs, static_cast<int>(axis));
  }

  absl::StatusOr<LazyTensor> Splat(JsonFields& fields) const {
    fields.OnlyKeys({"type", "dims", "bits"});
    const TensorType type = TypeOfFields(fields);
    const Json* bits = fields.Need("bits");
    if (bits != nullptr && !bits->is_number_unsigned())
      fields.Fail("bits", "must be a whole number that is not negative");
    NPUBANK_RETURN_IF_ERROR(fields.status());
    return LazyTensor::Splat(type, bits->get<uint64_t>());
  }

  absl::StatusOr<LazyTensor> Next(const LazyTensor& input, const Json& step,
                                  const std::string& where) const {
    NPUBANK_RETURN_IF_ERROR(CheckStep(step, where));
    const std::string& word = step.begin().key();
    const std::string here = absl::StrCat(where, ": ", word);
    absl::StatusOr<LazyTensor> made = input;
    if (IsOneOf(word, {"reshape", "convert", "permute", "unpack_nibbles"})) {
      JsonFields fields(step, where);  // what comes with the word is the step's one field
      made = Plain(input, word, fields);
      NPUBANK_RETURN_IF_ERROR(fields.status());
    } else if (IsOneOf(word, {"slice", "unpack", "gather", "shift", "dequantize_blocks",
                              "copy_block_plane"})) {
      NPUBANK_ASSIGN_OR_RETURN(JsonFields fields, FieldsOf(step.begin().value(), here));
      made = WithFields(input, word, fields);
      NPUBANK_RETURN_IF_ERROR(fields.status());
    } else {
      return Unknown(word, where);
    }
    if (!made.ok()) return Annotate(made.status(), here);
    return made;
  }

  // The words that come with a list or a name.
  static absl::StatusOr<LazyTensor> Plain(const LazyTensor& input, const std::string& word,
                                          JsonFields& step) {
    if (word == "reshape") return input.Reshape(step.Ints("reshape", 0, kMost, kMaxRank));
    if (word == "convert") return input.Convert(ElementOfField(step, "convert"));
    if (word == "permute") {
      std::vector<int> order;
      for (int64_t axis : step.Ints("permute", 0, Shape::kMaxRank, kMaxRank))
        order.push_back(static_cast<int>(axis));
      return input.Permute(order);
    }
    constexpr std::pair<absl::string_view, NibbleLayout> kLayouts[] = {
        {"rows", NibbleLayout::kRows},
        {"columns", NibbleLayout::kColumns},
        {"columns_plus_one", NibbleLayout::kColumnsPlusOne},
        {"columns_awq", NibbleLayout::kColumnsAwq},
        {"bytes", NibbleLayout::kBytes},
        {"bytes_plus_one", NibbleLayout::kBytesPlusOne},
        {"byte_rows", NibbleLayout::kByteRows}};
    const std::string name = step.Text("unpack_nibbles");
    for (const auto& [known, layout] : kLayouts)
      if (known == name) return input.UnpackNibbles(layout);
    step.Fail("unpack_nibbles", absl::StrCat(Quote(name), " is no layout"));
    return step.status();
  }

  // The words that come with an object.
  absl::StatusOr<LazyTensor> WithFields(const LazyTensor& input, const std::string& word,
                                        JsonFields& fields) const {
    if (word == "slice") {
      fields.OnlyKeys({"start", "size"});
      const std::vector<int64_t> start = fields.Ints("start", 0, kMost, kMaxRank);
      return input.Slice(start, fields.Ints("size", 0, kMost, kMaxRank));
    }
    if (word == "unpack") return Unpack(input, fields);
    if (word == "gather") {
      fields.OnlyKeys({"table"});
      NPUBANK_ASSIGN_OR_RETURN(const LazyTensor table, Part(fields, "table"));
      return input.Gather(table);
    }
    if (word == "shift") {
      fields.OnlyKeys({});
      return input.Shift();
    }
    if (word == "dequantize_blocks") {
      fields.OnlyKeys({"format", "to"});
      const kernels::BlockFormat format = FormatOfField(fields);
      return input.DequantizeBlocks(format, ElementOfField(fields, "to"));
    }
    return CopyBlockPlane(input, fields);
  }

  absl::StatusOr<LazyTensor> Unpack(const LazyTensor& input, JsonFields& fields) const {
    fields.OnlyKeys({"scale", "zero", "to"});
    const ElementType to = ElementOfField(fields, "to");
    NPUBANK_ASSIGN_OR_RETURN(const LazyTensor scale, Part(fields, "scale"));
    if (fields.Get("zero") == nullptr) return input.Unpack(scale, nullptr, to);
    NPUBANK_ASSIGN_OR_RETURN(const LazyTensor zero, Part(fields, "zero"));
    return input.Unpack(scale, &zero, to);
  }

  static absl::StatusOr<LazyTensor> CopyBlockPlane(const LazyTensor& input, JsonFields& fields) {
    fields.OnlyKeys({"format", "plane"});
    const kernels::BlockFormat format = FormatOfField(fields);
    const std::string name = fields.Text("plane");
    for (const kernels::BlockPlane plane :
         {kernels::BlockPlane::kNumbers, kernels::BlockPlane::kScale, kernels::BlockPlane::kMin})
      if (name == kernels::BlockPlaneName(plane)) return input.CopyBlockPlane(format, plane);
    fields.Fail("plane", absl::StrCat(Quote(name), " is no plane"));
    return fields.status();
  }

  // Another tensor that an operation takes.
  absl::StatusOr<LazyTensor> Part(JsonFields& fields, const char* key) const {
    const Json* words = fields.Need(key);
    NPUBANK_RETURN_IF_ERROR(fields.status());
    return Read(*words, key);
  }

  const SourceIndex& index_;
};

}  // namespace

absl::StatusOr<LazyTensor> TensorOfWords(const Json& words, const SourceIndex& index,
                                         const std::string& where) {
  return WordsReader(index).Read(words, where);
}

TensorType TypeOfFields(JsonFields& fields) {
  const ElementType element = ElementOfField(fields, "type");
  const std::vector<int64_t> dims = fields.Ints("dims", 0, kMost, kMaxRank);
  absl::StatusOr<Shape> shape = Shape::Create(dims);
  if (!shape.ok()) {
    fields.Adopt(Annotate(shape.status(), fields.file()));
    return {};
  }
  absl::StatusOr<TensorType> type = TensorType::Create(element, *std::move(shape));
  fields.Adopt(Annotate(type.status(), fields.file()));
  return type.value_or(TensorType());
}

}  // namespace npubank
