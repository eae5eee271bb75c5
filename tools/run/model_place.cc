#include "npubank/tools/run/model_place.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {
namespace {

namespace fs = std::filesystem;

fs::path HubCache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string hub = variable("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(cache)) / "huggingface" /
         "hub";
}

// ORG/NAME, or NAME: nothing that leads elsewhere.
bool IsRepository(const std::string& name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-' ||
           c == '/';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), allowed) &&
         std::count(name.begin(), name.end(), '/') <= 1 && name.find("..") == std::string::npos &&
         name.front() != '/' && name.back() != '/';
}

std::vector<fs::path> In(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    entries.push_back(at->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

absl::StatusOr<fs::path> Snapshot(const fs::path& repository, const std::string& name) {
  const std::vector<fs::path> all = In(repository / "snapshots");
  if (all.empty())
    return absl::NotFoundError(absl::StrCat("'", name,
                                            "' is no file or folder here, and not in the cache as ",
                                            repository.string(), "/snapshots/..."));
  std::error_code error;
  if (fs::exists(repository / "refs" / "main", error)) {
    NPUBANK_ASSIGN_OR_RETURN(const std::string main,
                             ReadTextFile(repository / "refs" / "main", 256));
    const std::string commit(absl::StripAsciiWhitespace(main));
    for (const fs::path& each : all)
      if (each.filename() == commit) return each;
  }
  if (all.size() == 1) return all[0];
  return absl::FailedPreconditionError(
      absl::StrCat("'", name, "' has ", all.size(), " snapshots in ", repository.string(),
                   " and refs/main names none: give the path of one"));
}

absl::Status AppendIds(const nlohmann::json& value, const std::string& path,
                       std::vector<int64_t>& ids) {
  const nlohmann::json list = value.is_array() ? value : nlohmann::json::array({value});
  for (const nlohmann::json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > (uint64_t{1} << 24))
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": 'eos_token_id' must be the id of a token, or a list of them"));
    ids.push_back(id.get<int64_t>());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> OfGguf(const std::string& path) {
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Source> source,
                           Source::OpenFile(path, FileAccess::kRead));
  NPUBANK_ASSIGN_OR_RETURN(const Gguf file, ReadGguf(*source));
  std::vector<int64_t> ids;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    const GgufValue* value = file.Find(key);
    const auto* id = value == nullptr ? nullptr : std::get_if<uint64_t>(&value->value);
    if (id != nullptr) ids.push_back(static_cast<int64_t>(*id));
  }
  return ids;
}

absl::StatusOr<std::vector<int64_t>> OfFolder(const std::string& folder) {
  std::vector<int64_t> ids;
  const std::string path = folder + "/generation_config.json";
  std::error_code error;
  if (!fs::exists(path, error)) return ids;
  NPUBANK_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxConfigJsonBytes));
  NPUBANK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, path));
  if (!json.is_object())
    return absl::InvalidArgumentError(absl::StrCat(path, ": must be a JSON object"));
  const auto eos = json.find("eos_token_id");
  if (eos != json.end() && !eos->is_null()) NPUBANK_RETURN_IF_ERROR(AppendIds(*eos, path, ids));
  return ids;
}

}  // namespace

absl::StatusOr<std::string> FindModel(const std::string& name) {
  std::error_code error;
  if (fs::exists(name, error) || !IsRepository(name))
    return name;  // who opens it, says what is wrong
  const std::string folder = "models--" + absl::StrReplaceAll(name, {{"/", "--"}});
  NPUBANK_ASSIGN_OR_RETURN(const fs::path snapshot, Snapshot(HubCache() / folder, name));
  if (fs::exists(snapshot / "config.json", error)) return snapshot.string();
  std::vector<fs::path> files = In(snapshot);
  std::erase_if(files, [](const fs::path& file) { return file.extension() != ".gguf"; });
  return files.size() == 1 ? files[0].string() : snapshot.string();
}

absl::StatusOr<std::vector<int64_t>> EndTokens(const std::string& path,
                                               const std::vector<int64_t>& config) {
  std::error_code error;
  NPUBANK_ASSIGN_OR_RETURN(std::vector<int64_t> ids,
                           fs::is_directory(path, error) ? OfFolder(path) : OfGguf(path));
  return ids.empty() ? config : ids;
}

}  // namespace npubank
