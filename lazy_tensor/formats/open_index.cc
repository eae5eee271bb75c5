#include "npubank/lazy_tensor/formats/open_index.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/safetensors.h"

namespace npubank {
namespace {

constexpr uint64_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMaxShards = 4096;

absl::StatusOr<bool> IsFolder(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0) return S_ISDIR(info.st_mode);
  if (errno == ENOENT || errno == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat("model '", path, "' does not exist"));
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("model '", path, "'"));
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
    return absl::InvalidArgumentError(absl::StrCat(path, ": needs an object 'weight_map'"));
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

absl::Status AppendShards(const std::string& folder, const std::string& listing, FileAccess access,
                          SourceIndex& index) {
  NPUBANK_ASSIGN_OR_RETURN(const auto shard_of, ReadIndex(listing));
  std::map<std::string, uint32_t> file_of;  // by shard
  for (const auto& [tensor, shard] : shard_of) file_of.emplace(shard, 0);
  if (file_of.size() > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat(listing, ": ", file_of.size(), " shards, more than ", kMaxShards));
  }
  for (auto& [shard, file] : file_of) {
    NPUBANK_ASSIGN_OR_RETURN(
        file, index.AddFile(SourceOpener::Path(absl::StrCat(folder, "/", shard), access)));
    NPUBANK_RETURN_IF_ERROR(AppendSafetensors(file, index));
  }
  for (const auto& [tensor, shard] : shard_of) {
    const StoredTensor* stored = index.Find(tensor);
    if (stored == nullptr || stored->file != file_of.at(shard)) {
      return absl::InvalidArgumentError(absl::StrCat(listing, ": maps tensor ", Quote(tensor),
                                                     " to ", Quote(shard),
                                                     ", which does not have it"));
    }
  }
  return absl::OkStatus();
}

OpenedIndex Empty(const std::string& listing, bool folder) {
  auto index = std::make_shared<SourceIndex>(listing);
  SourceIndex::Use use(index);
  return {std::move(index), std::move(use), folder, std::nullopt};
}

absl::StatusOr<OpenedIndex> OpenFolder(const std::string& path, FileAccess access) {
  const std::string single = path + "/model.safetensors";
  const std::string shards = path + "/model.safetensors.index.json";
  if (Exists(single)) {
    OpenedIndex opened = Empty(single, true);
    NPUBANK_ASSIGN_OR_RETURN(const uint32_t file,
                             opened.index->AddFile(SourceOpener::Path(single, access)));
    NPUBANK_RETURN_IF_ERROR(AppendSafetensors(file, *opened.index));
    return opened;
  }
  if (Exists(shards)) {
    OpenedIndex opened = Empty(shards, true);
    NPUBANK_RETURN_IF_ERROR(AppendShards(path, shards, access, *opened.index));
    return opened;
  }
  return absl::NotFoundError(
      absl::StrCat(path, ": has neither model.safetensors nor model.safetensors.index.json"));
}

absl::StatusOr<OpenedIndex> OpenSingleFile(const std::string& path, FileAccess access) {
  OpenedIndex opened = Empty(path, false);
  NPUBANK_ASSIGN_OR_RETURN(const uint32_t file,
                           opened.index->AddFile(SourceOpener::Path(path, access)));
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Source> source, opened.index->Open(file));
  constexpr absl::string_view kGguf = "GGUF";
  char magic[kGguf.size()] = {};
  if (source->size() >= kGguf.size()) {
    NPUBANK_RETURN_IF_ERROR(
        source->Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(magic), kGguf.size())));
  }
  if (absl::string_view(magic, kGguf.size()) == kGguf) {
    NPUBANK_ASSIGN_OR_RETURN(opened.gguf, AppendGguf(file, *opened.index));
  } else {
    NPUBANK_RETURN_IF_ERROR(AppendSafetensors(file, *opened.index));
  }
  return opened;
}

}  // namespace

absl::StatusOr<OpenedIndex> OpenIndex(const std::string& path, FileAccess access) {
  NPUBANK_ASSIGN_OR_RETURN(const bool is_folder, IsFolder(path));
  return is_folder ? OpenFolder(path, access) : OpenSingleFile(path, access);
}

}  // namespace npubank
