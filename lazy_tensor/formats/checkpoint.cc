#include "npubank/lazy_tensor/formats/checkpoint.h"

#include <sys/stat.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/formats/gguf_model.h"
#include "npubank/lazy_tensor/formats/json.h"

namespace npubank {
namespace {

constexpr uint64_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMaxShards = 4096;
constexpr absl::string_view kQuantizedSuffix = ".qweight";

absl::StatusOr<bool> IsFolder(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0) return S_ISDIR(info.st_mode);
  if (errno == ENOENT || errno == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat("model \"", path, "\" does not exist"));
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("model \"", path, "\""));
}

bool Exists(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0;
}

// A file beside the index, not a way out of the folder.
bool IsPlainFileName(absl::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == absl::string_view::npos && name.find('\0') == absl::string_view::npos;
}

// Tensor name to shard file name.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxIndexBytes));
  NPUBANK_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text, path));
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": needs an object \"weight_map\""));
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : root["weight_map"].items()) {
    if (!shard.is_string() || !IsPlainFileName(shard.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor ", Quote(tensor),
                       " must be mapped to the plain name of a file in the same folder"));
    }
    shard_of[tensor] = shard.get<std::string>();
  }
  return shard_of;
}

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

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const std::string& path,
                                                                   FileAccess access) {
  NPUBANK_ASSIGN_OR_RETURN(const bool is_folder, IsFolder(path));
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->path_ = path;
  NPUBANK_RETURN_IF_ERROR(is_folder ? checkpoint->OpenFolder(access)
                                    : checkpoint->OpenGguf(access));
  return checkpoint;
}

absl::Status Checkpoint::OpenFolder(FileAccess access) {
  NPUBANK_ASSIGN_OR_RETURN(config_, ReadModelConfig(path_ + "/config.json"));
  NPUBANK_ASSIGN_OR_RETURN(quantization_, ReadQuantization(path_ + "/config.json"));
  NPUBANK_RETURN_IF_ERROR(AddFolder(access));
  if (!quantization_) return absl::OkStatus();
  for (const auto& [name, stored] : tensors_) {
    absl::string_view stem = name;
    if (!absl::ConsumeSuffix(&stem, kQuantizedSuffix)) continue;
    stored_names_[absl::StrCat(stem, ".weight")] = name;
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::AddFolder(FileAccess access) {
  const std::string single = path_ + "/model.safetensors";
  const std::string index = path_ + "/model.safetensors.index.json";
  if (Exists(single)) {
    listing_ = single;
    return AddFile(single, access);
  }
  if (Exists(index)) {
    listing_ = index;
    return AddShards(index, access);
  }
  return absl::NotFoundError(
      absl::StrCat(path_, ": has neither model.safetensors nor model.safetensors.index.json"));
}

absl::Status Checkpoint::OpenGguf(FileAccess access) {
  NPUBANK_ASSIGN_OR_RETURN(gguf_, Source::OpenFile(path_, access));
  listing_ = path_;
  NPUBANK_ASSIGN_OR_RETURN(const Gguf file, ReadGguf(*gguf_));
  NPUBANK_ASSIGN_OR_RETURN(config_, GgufModelConfig(file, *gguf_));
  for (const GgufTensor& tensor : file.tensors) {
    NPUBANK_ASSIGN_OR_RETURN(TensorType type, StoredType(tensor));
    Stored stored = {gguf_, {tensor.name, std::move(type), tensor.offset}, std::nullopt};
    if (const auto* format = std::get_if<kernels::BlockFormat>(&tensor.format)) {
      stored.blocks = *format;
    }
    NPUBANK_RETURN_IF_ERROR(Add(std::move(stored)));
    std::string name = HuggingFaceName(tensor.name);
    if (name != tensor.name) stored_names_[std::move(name)] = tensor.name;
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::Add(Stored stored) {
  const std::string file = stored.source->name();
  std::string name = stored.entry.name;
  const auto [at, added] = tensors_.try_emplace(std::move(name), std::move(stored));
  if (added) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(at->first), " is in both ",
                                                 at->second.source->name(), " and ", file));
}

absl::Status Checkpoint::AddFile(const std::string& file, FileAccess access) {
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, Source::OpenFile(file, access));
  NPUBANK_ASSIGN_OR_RETURN(std::vector<TensorEntry> entries, ReadSafetensors(*source));
  for (TensorEntry& entry : entries) {
    NPUBANK_RETURN_IF_ERROR(Add({source, std::move(entry), std::nullopt}));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::AddShards(const std::string& index, FileAccess access) {
  NPUBANK_ASSIGN_OR_RETURN(const auto shard_of, ReadIndex(index));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
  if (shards.size() > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat(index, ": ", shards.size(), " shards, more than ", kMaxShards));
  }
  for (const std::string& shard : shards) {
    NPUBANK_RETURN_IF_ERROR(AddFile(absl::StrCat(path_, "/", shard), access));
  }
  for (const auto& [tensor, shard] : shard_of) {
    const auto at = tensors_.find(tensor);
    if (at == tensors_.end() || at->second.source->name() != absl::StrCat(path_, "/", shard)) {
      return absl::InvalidArgumentError(absl::StrCat(index, ": maps tensor ", Quote(tensor), " to ",
                                                     Quote(shard), ", which does not have it"));
    }
  }
  return absl::OkStatus();
}

bool Checkpoint::Contains(absl::string_view name) const {
  return tensors_.count(std::string(name)) != 0 || stored_names_.count(std::string(name)) != 0;
}

absl::StatusOr<RecipePtr> Checkpoint::Find(absl::string_view name) const {
  if (const auto at = tensors_.find(std::string(name)); at != tensors_.end()) {
    const Stored& stored = at->second;
    return Recipe::Constant(stored.source, stored.entry.offset, stored.entry.type, at->first);
  }
  if (const auto at = stored_names_.find(std::string(name)); at != stored_names_.end()) {
    return Dequantized(at->second);
  }
  return absl::NotFoundError(absl::StrCat("tensor ", Quote(name), " is not in ", listing_));
}

absl::StatusOr<RecipePtr> Checkpoint::Dequantized(const std::string& stored_name) const {
  absl::string_view stem = stored_name;
  if (quantization_ && absl::ConsumeSuffix(&stem, kQuantizedSuffix)) {
    return QuantizedWeight(*quantization_, std::string(stem),
                           [this](absl::string_view name) { return Find(name); });
  }
  NPUBANK_ASSIGN_OR_RETURN(RecipePtr stored, Find(stored_name));
  const std::optional<kernels::BlockFormat>& blocks = tensors_.at(stored_name).blocks;
  if (!blocks) return stored;
  return Recipe::DequantizeBlocks(std::move(stored), *blocks, ElementType::kF32);
}

absl::StatusOr<Vocabulary> Checkpoint::LoadVocabulary() const {
  if (gguf_ == nullptr) return ReadVocabulary(path_ + "/tokens.json");
  NPUBANK_ASSIGN_OR_RETURN(const Gguf file, ReadGguf(*gguf_));
  return GgufVocabulary(file, path_);
}

}  // namespace npubank
