#include "npubank/runtime/manifest/manifest.h"

#include <bit>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/json_fields.h"
#include "npubank/lazy_tensor/formats/open_index.h"
#include "npubank/lazy_tensor/recipe/recipe_codec.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/runtime/manifest/tensor_words.h"

namespace npubank {
namespace {

using Json = nlohmann::json;
using Placement = SubmodelDescription::Placement;
using ReadFile = absl::FunctionRef<absl::StatusOr<std::string>(const std::string& name)>;

constexpr size_t kMaxParts = 1 << 18;  // functions, values, weights, calls, arguments: of each
constexpr size_t kMaxNameBytes = 255;

// A name that messages and maps can take.
bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (char c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  return true;
}

// A file beside the manifest, not a way out of its folder.
bool IsPlainFileName(absl::string_view name) {
  return IsName(name) && name != "." && name != ".." && name.find('/') == absl::string_view::npos;
}

std::string NameOfField(JsonFields& fields, const char* key) {
  std::string name = fields.Text(key);
  if (!IsName(name))
    fields.Fail(key, absl::StrCat(Quote(name), " must have 1 to ", kMaxNameBytes,
                                  " characters, none of control"));
  return name;
}

std::optional<Placement> PlacementFromName(absl::string_view name) {
  constexpr std::pair<absl::string_view, Placement> kNames[] = {{"input", Placement::kInput},
                                                                {"output", Placement::kOutput},
                                                                {"state", Placement::kState},
                                                                {"arena", Placement::kArena},
                                                                {"scratch", Placement::kScratch}};
  for (const auto& [known, placement] : kNames)
    if (known == name) return placement;
  return std::nullopt;
}

// Numbers of parts by their names; the description's Check refuses doubles.
using Numbers = absl::flat_hash_map<std::string, uint32_t>;

class ManifestReader {
 public:
  ManifestReader(const std::string& file, std::shared_ptr<const SourceIndex> index, ReadFile read)
      : file_(file), index_(std::move(index)), use_(index_), read_(read) {}

  absl::StatusOr<SubmodelDescription> Read(const Json& root) {
    if (!root.is_object())
      return absl::InvalidArgumentError(absl::StrCat(file_, ": a manifest is an object"));
    JsonFields fields(root, file_);
    fields.Int("npubank_manifest", 1, 1);
    fields.OnlyKeys({"npubank_manifest", "name", "model", "functions", "values", "arena_bytes",
                     "weights", "calls"});
    made_.name = NameOfField(fields, "name");
    made_.arena_bytes = static_cast<uint64_t>(
        fields.Int("arena_bytes", 0, SubmodelDescription::kMostArenaBytes, 0));
    for (const char* key : {"functions", "calls"}) fields.Need(key);
    NPUBANK_RETURN_IF_ERROR(fields.status());
    NPUBANK_RETURN_IF_ERROR(
        ReadAll(fields, "functions", "function", [&](JsonFields& f) { return ReadFunction(f); }));
    NPUBANK_RETURN_IF_ERROR(
        ReadAll(fields, "values", "value", [&](JsonFields& f) { return ReadValue(f); }));
    NPUBANK_RETURN_IF_ERROR(
        ReadAll(fields, "weights", "weight", [&](JsonFields& f) { return ReadWeight(f); }));
    NPUBANK_RETURN_IF_ERROR(BindWeights());
    NPUBANK_RETURN_IF_ERROR(
        ReadAll(fields, "calls", "call", [&](JsonFields& f) { return ReadCall(f); }));
    NPUBANK_RETURN_IF_ERROR(Annotate(made_.Check(), file_));
    return std::move(made_);
  }

 private:
  // Each object of a list, with a place to say in messages: its name, once that is known to be one.
  absl::Status ReadAll(JsonFields& of, const char* key, absl::string_view what,
                       absl::FunctionRef<absl::Status(JsonFields&)> read) const {
    const Json& list = of.List(key);
    if (list.size() > kMaxParts)
      of.Fail(key, absl::StrCat("has ", list.size(), " entries, more than ", kMaxParts));
    NPUBANK_RETURN_IF_ERROR(of.status());
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string place =
          absl::StrCat(of.file(), of.file() == file_ ? ": " : ", ", what, " ");
      if (!list[i].is_object())
        return absl::InvalidArgumentError(absl::StrCat(place, i, ": must be an object"));
      JsonFields unnamed(list[i], absl::StrCat(place, i));
      const std::string name = NameOfField(unnamed, "name");
      NPUBANK_RETURN_IF_ERROR(unnamed.status());
      JsonFields fields(list[i], absl::StrCat(place, "'", name, "'"));
      NPUBANK_RETURN_IF_ERROR(read(fields));
    }
    return absl::OkStatus();
  }

  absl::Status ReadFunction(JsonFields& fields) {
    fields.OnlyKeys({"name", "file"});
    const std::string file = fields.Text("file");
    if (!IsPlainFileName(file))
      fields.Fail("file", absl::StrCat(Quote(file), " is no plain name of a file beside this one"));
    NPUBANK_RETURN_IF_ERROR(fields.status());
    absl::StatusOr<std::string> blob = read_(file);
    if (!blob.ok()) return Annotate(blob.status(), fields.file());
    function_numbers_.emplace(fields.Text("name"), made_.functions.size());
    made_.functions.push_back({fields.Text("name"), *std::move(blob)});
    return absl::OkStatus();
  }

  absl::Status ReadValue(JsonFields& fields) {
    fields.OnlyKeys({"name", "type", "dims", "place", "offset"});
    const std::string place = fields.Text("place");
    const std::optional<Placement> placement = PlacementFromName(place);
    if (!placement)
      fields.Fail("place", absl::StrCat(Quote(place),
                                        " is not one of input, output, state, arena, scratch"));
    const bool in_arena = placement == Placement::kArena || placement == Placement::kScratch;
    if (!in_arena && fields.Get("offset") != nullptr)
      fields.Fail("offset", "is for values in the arena");
    const int64_t offset =
        in_arena ? fields.Int("offset", 0, SubmodelDescription::kMostArenaBytes) : 0;
    const TensorType type = TypeOfFields(fields);
    NPUBANK_RETURN_IF_ERROR(fields.status());
    value_numbers_.emplace(fields.Text("name"), made_.values.size());
    made_.values.push_back({fields.Text("name"), type, *placement, static_cast<uint64_t>(offset)});
    return absl::OkStatus();
  }

  absl::Status ReadWeight(JsonFields& fields) {
    fields.OnlyKeys({"name", "tensor", "alignment"});
    const Json* words = fields.Need("tensor");
    const auto alignment =
        static_cast<uint64_t>(fields.Int("alignment", 1, SubmodelDescription::kMostArenaBytes, 1));
    if (!std::has_single_bit(alignment))
      fields.Fail("alignment", absl::StrCat(alignment, " is no power of two"));
    NPUBANK_RETURN_IF_ERROR(fields.status());
    if (index_ == nullptr)
      return absl::InvalidArgumentError(absl::StrCat(
          fields.file(), ": there is no model: say 'model', or give one beside the manifest"));
    NPUBANK_ASSIGN_OR_RETURN(const LazyTensor tensor,
                             TensorOfWords(*words, *index_, fields.file()));
    NPUBANK_ASSIGN_OR_RETURN(tensors_.emplace_back(), tensor.MakeRecipe());
    weight_numbers_.emplace(fields.Text("name"), made_.weights.size());
    made_.weights.push_back(fields.Text("name"));
    made_.weight_alignments.push_back(alignment);
    return absl::OkStatus();
  }

  // From here on the weights are only described, and hold no file.
  absl::Status BindWeights() {
    if (tensors_.empty()) return absl::OkStatus();
    absl::StatusOr<std::string> encoded = EncodeRecipes(tensors_);
    if (!encoded.ok()) return Annotate(encoded.status(), file_);
    absl::StatusOr<std::shared_ptr<const RecipeList>> recipes = RecipeList::Bind(*encoded, index_);
    if (!recipes.ok()) return Annotate(recipes.status(), file_);
    made_.recipes = *std::move(recipes);
    tensors_.clear();
    return absl::OkStatus();
  }

  absl::Status ReadCall(JsonFields& fields) {
    fields.OnlyKeys({"name", "function", "arguments"});
    fields.Need("arguments");
    SubmodelDescription::Call call{fields.Text("name"), 0, {}};
    call.function = NumberOfField(fields, "function", function_numbers_);
    NPUBANK_RETURN_IF_ERROR(fields.status());
    NPUBANK_RETURN_IF_ERROR(ReadAll(fields, "arguments", "argument", [&](JsonFields& argument) {
      return ReadArgument(argument, call);
    }));
    made_.calls.push_back(std::move(call));
    return absl::OkStatus();
  }

  absl::Status ReadArgument(JsonFields& fields, SubmodelDescription::Call& call) const {
    fields.OnlyKeys({"name", "value", "weight"});
    const bool weight = fields.Get("weight") != nullptr;
    if (weight == (fields.Get("value") != nullptr))
      fields.Fail("value", "or 'weight' must be there, and one of them only");
    const uint32_t number = weight ? NumberOfField(fields, "weight", weight_numbers_)
                                   : NumberOfField(fields, "value", value_numbers_);
    NPUBANK_RETURN_IF_ERROR(fields.status());
    call.arguments.push_back({fields.Text("name"), weight, number});
    return absl::OkStatus();
  }

  // The number of a part that a field names; the key is what sort of part.
  static uint32_t NumberOfField(JsonFields& fields, const char* key, const Numbers& numbers) {
    const std::string name = fields.Text(key);
    const auto found = numbers.find(name);
    if (found != numbers.end()) return found->second;
    fields.Adopt(absl::InvalidArgumentError(
        absl::StrCat(fields.file(), ": there is no ", key, " ", Quote(name))));
    return 0;
  }

  const std::string file_;
  const std::shared_ptr<const SourceIndex> index_;
  const SourceIndex::Use use_;  // each of its files is opened once
  const ReadFile read_;
  SubmodelDescription made_;
  std::vector<RecipePtr> tensors_;
  Numbers function_numbers_;
  Numbers value_numbers_;
  Numbers weight_numbers_;
};

// Where the manifest says that the stored tensors are; nullopt when it does not say.
absl::StatusOr<std::optional<std::string>> ModelOf(const Json& root, const std::string& file) {
  if (!root.is_object() || !root.contains("model")) return std::optional<std::string>();
  JsonFields fields(root, file);
  const std::string model = fields.Text("model");
  if (!IsPlainFileName(model))
    fields.Fail("model", absl::StrCat(Quote(model), " is no plain name of a file beside this one"));
  NPUBANK_RETURN_IF_ERROR(fields.status());
  return std::optional<std::string>(model);
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace

absl::StatusOr<SubmodelDescription> ParseManifest(absl::string_view text, const std::string& file,
                                                  std::shared_ptr<const SourceIndex> index,
                                                  ReadFile read) {
  NPUBANK_ASSIGN_OR_RETURN(const Json root, ParseJson(text, file));
  NPUBANK_RETURN_IF_ERROR(ModelOf(root, file).status());
  return ManifestReader(file, std::move(index), read).Read(root);
}

absl::StatusOr<SubmodelDescription> ReadManifest(const std::string& path,
                                                 std::shared_ptr<const SourceIndex> index) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMostManifestBytes));
  NPUBANK_ASSIGN_OR_RETURN(const Json root, ParseJson(text, path));
  NPUBANK_ASSIGN_OR_RETURN(const std::optional<std::string> model, ModelOf(root, path));
  const std::string folder = FolderOf(path);
  if (index == nullptr && model) {
    absl::StatusOr<OpenedIndex> opened = OpenIndex(folder + *model);
    if (!opened.ok()) return Annotate(opened.status(), path);
    index = std::move(opened->index);
  }
  const auto read = [&](const std::string& name) {
    return ReadTextFile(folder + name, kMostFunctionBytes);
  };
  return ManifestReader(path, std::move(index), read).Read(root);
}

}  // namespace npubank
