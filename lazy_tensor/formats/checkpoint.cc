#include "lazy_tensor/formats/checkpoint.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lazy_tensor/formats/json.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMaxShards = 4096;

absl::Status CheckFolder(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return absl::NotFoundError(absl::StrCat("model folder \"", path, "\" does not exist"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("model folder \"", path, "\""));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", path, "\" is not a folder; expected one with config.json and model.safetensors"));
  }
  return absl::OkStatus();
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

}  // namespace

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const std::string& path,
                                                                   FileAccess access) {
  NPUBANK_RETURN_IF_ERROR(CheckFolder(path));
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->path_ = path;
  NPUBANK_ASSIGN_OR_RETURN(checkpoint->config_, ReadModelConfig(path + "/config.json"));
  const std::string single = path + "/model.safetensors";
  const std::string index = path + "/model.safetensors.index.json";
  if (Exists(single)) {
    checkpoint->listing_ = single;
    NPUBANK_RETURN_IF_ERROR(checkpoint->AddFile(single, access));
  } else if (Exists(index)) {
    checkpoint->listing_ = index;
    NPUBANK_RETURN_IF_ERROR(checkpoint->AddShards(index, access));
  } else {
    return absl::NotFoundError(
        absl::StrCat(path, ": has neither model.safetensors nor model.safetensors.index.json"));
  }
  return checkpoint;
}

absl::Status Checkpoint::AddFile(const std::string& file, FileAccess access) {
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, Source::OpenFile(file, access));
  NPUBANK_ASSIGN_OR_RETURN(std::vector<TensorEntry> entries, ReadSafetensors(*source));
  for (TensorEntry& entry : entries) {
    const std::string name = entry.name;
    const auto [at, added] = tensors_.try_emplace(name, Stored{source, std::move(entry)});
    if (!added) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(name), " is in both ",
                                                     at->second.source->name(), " and ", file));
    }
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
  return tensors_.count(std::string(name)) != 0;
}

absl::StatusOr<RecipePtr> Checkpoint::Find(absl::string_view name) const {
  const auto at = tensors_.find(std::string(name));
  if (at == tensors_.end()) {
    return absl::NotFoundError(absl::StrCat("tensor ", Quote(name), " is not in ", listing_));
  }
  const Stored& stored = at->second;
  return Recipe::Constant(stored.source, stored.entry.offset, stored.entry.type, stored.entry.name);
}

}  // namespace npubank
