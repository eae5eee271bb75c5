#include "npubank/tools/weights_export.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "npubank/bank/files/cache_file.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/lazy_tensor/base/files/atomic_file.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/base/thread.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/recipe/recipe.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"

namespace npubank {
namespace {

namespace fs = std::filesystem;

struct NamedWeight {
  SubmodelWeight name;
  LazyTensor tensor;
  Digest key;  // in the file
};

// As a submodel of this format has them: every submodel of a model has the same.
absl::StatusOr<std::vector<NamedWeight>> WeightsOf(const Checkpoint& model, WeightFormat format) {
  CompileOptions compile;
  compile.name = "export";
  compile.chunk = 1;
  compile.context = 1;
  compile.weights = format;
  NPUBANK_ASSIGN_OR_RETURN(const std::string bytes, Compile(model, compile));
  NPUBANK_ASSIGN_OR_RETURN(const SubmodelBlob blob, ReadSubmodelBlob(bytes));
  NPUBANK_ASSIGN_OR_RETURN(const auto recipes, RecipeList::Bind(blob.recipes, model.index()));
  std::vector<NamedWeight> weights;
  for (size_t i = 0; i < blob.weights.size(); ++i) {
    LazyTensor tensor(Description{recipes, i});
    const Digest key = CacheKey(tensor.digest(), tensor.stamp());
    weights.push_back({blob.weights[i], std::move(tensor), key});
  }
  return weights;
}

// The same weights have the same name, and it is never that of others.
std::string FileNameOf(const std::vector<NamedWeight>& weights) {
  DigestBuilder builder("export");
  for (const NamedWeight& weight : weights) builder.Add(weight.key);
  return absl::StrCat("weights-", builder.Finish().ToHex(), ".cache");
}

// Takes the ending ".PID.NUMBER" off, which a file has until it is whole, where that process is no more.
void ConsumeUnfinished(absl::string_view* name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(*name, '.');
  pid_t process = 0;
  int number = 0;
  if (parts.size() < 3 || !absl::SimpleAtoi(parts[parts.size() - 2], &process) || process <= 0 ||
      !absl::SimpleAtoi(parts.back(), &number) || kill(process, 0) == 0 || errno != ESRCH) {
    return;
  }
  name->remove_suffix(parts.back().size() + parts[parts.size() - 2].size() + 2);
}

// Or the lock of one, or one that is not whole, which a process that was killed leaves.
bool IsFileOfExports(absl::string_view name) {
  constexpr size_t kDigits = 32;
  const absl::string_view as_found = name;
  ConsumeUnfinished(&name);
  if (name == "weights.json") return name != as_found;
  absl::ConsumeSuffix(&name, ".lock");
  if (!absl::ConsumePrefix(&name, "weights-") || !absl::ConsumeSuffix(&name, ".cache"))
    return false;
  return name.size() == kDigits && std::all_of(name.begin(), name.end(), absl::ascii_isxdigit);
}

// A tensor's bytes front to back, evaluated in pieces that are large enough for a transposition to read whole rows, each while
// the piece before it is being written.
class Windows {
 public:
  Windows(const Recipe& recipe, uint64_t bytes, const EvaluateOptions& options)
      : recipe_(recipe), bytes_(bytes), options_(options) {}
  ~Windows() { Join(); }

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) {
    while (!out.empty()) {
      if (offset >= end_) NPUBANK_RETURN_IF_ERROR(Advance());
      const uint64_t at = offset + now_.size() - end_;
      const size_t size = std::min<uint64_t>(out.size(), end_ - offset);
      std::memcpy(out.data(), now_.data() + at, size);
      offset += size;
      out.remove_prefix(size);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kBytes = 24 << 20;  // two of them are alive

  void Join() {
    if (ahead_.joinable()) ahead_.join();
  }
  void Evaluate() {
    next_.resize(std::min(kBytes, bytes_ - end_));
    status_ = EvaluateRange(recipe_, end_, absl::MakeSpan(next_), options_);
  }
  // The next window, and the one behind it begins.
  absl::Status Advance() {
    if (ahead_.joinable()) {
      Join();
    } else {
      Evaluate();
    }
    NPUBANK_RETURN_IF_ERROR(status_);
    now_.swap(next_);
    end_ += now_.size();
    if (end_ == bytes_) return absl::OkStatus();
    NPUBANK_ASSIGN_OR_RETURN(ahead_, StartThread([this] { Evaluate(); }));
    return absl::OkStatus();
  }

  const Recipe& recipe_;
  const uint64_t bytes_;
  const EvaluateOptions options_;
  std::vector<std::byte> now_, next_;
  uint64_t end_ = 0;   // of `now_`
  std::thread ahead_;  // has `next_` and `status_` while it runs
  absl::Status status_;
};

absl::Status Write(const ExportOptions& options, const std::vector<NamedWeight>& weights,
                   CacheFile& file) {
  EvaluateOptions evaluate;
  evaluate.workers = options.workers;
  uint64_t done = 0, total = 0;
  for (const NamedWeight& weight : weights) total += weight.tensor.type().bytes();
  for (const NamedWeight& weight : weights) {
    const uint64_t bytes = weight.tensor.type().bytes();
    NPUBANK_ASSIGN_OR_RETURN(const RecipePtr recipe, weight.tensor.MakeRecipe());
    Windows windows(*recipe, bytes, evaluate);
    const auto read = [&](uint64_t offset, absl::Span<std::byte> out) {
      return windows.Read(offset, out);
    };
    NPUBANK_RETURN_IF_ERROR(Annotate(file.Add(weight.key, bytes, read),
                                     absl::StrCat("exporting ", weight.name.ToString())));
    done += bytes;
    if (options.progress) options.progress(done, total, weight.name.name);
  }
  return file.Save();
}

absl::StatusOr<std::string> ManifestOf(const std::vector<NamedWeight>& weights,
                                       const std::string& path, ExportReport& report) {
  NPUBANK_ASSIGN_OR_RETURN(const auto source, Source::OpenFile(path));
  NPUBANK_ASSIGN_OR_RETURN(const CacheEntries entries, ReadCacheIndex(source));
  std::set<Digest> counted;
  auto listed = nlohmann::ordered_json::array();
  for (const NamedWeight& weight : weights) {
    const auto found = entries.find(weight.key);
    const TensorType& type = weight.tensor.type();
    if (found == entries.end()) {
      return absl::DataLossError(absl::StrCat("'", path, "' has not got ", weight.name.ToString(),
                                              ": it was replaced meanwhile; export again"));
    }
    const absl::Span<const int64_t> dims = type.shape().dims();
    listed.push_back({{"name", weight.name.name},
                      {"part", std::string(WeightPartName(weight.name.part))},
                      {"type", std::string(ElementTypeName(type.element()))},
                      {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                      {"offset", found->second.offset},
                      {"bytes", found->second.bytes},
                      {"digest", found->second.hash.ToHex()}});
    if (counted.insert(weight.key).second) report.bytes += found->second.bytes;
  }
  report.weights = weights.size();
  nlohmann::ordered_json manifest = {{"npubank_export", 1},
                                     {"file", fs::path(path).filename().string()},
                                     {"weights", std::move(listed)}};
  return manifest.dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::Status WriteManifest(const std::string& path, const std::string& text) {
  NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NPUBANK_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

// What a manifest before this one named, and what an export that was killed has left.
void RemoveOthers(const std::string& folder, const std::string& file) {
  std::error_code ignored;
  fs::directory_iterator entry(folder, ignored);
  for (; !ignored && entry != fs::directory_iterator(); entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    std::error_code stays;  // it costs room and nothing else
    if (name != file && IsFileOfExports(name)) fs::remove(entry->path(), stays);
  }
}

absl::StatusOr<ExportReport> ExportInto(const ExportOptions& options,
                                        const std::vector<NamedWeight>& weights) {
  ExportReport report;
  const std::string name = FileNameOf(weights);
  report.file = absl::StrCat(options.out, "/", name);
  report.manifest = absl::StrCat(options.out, "/weights.json");
  std::error_code unknown;
  const bool there = fs::exists(report.file, unknown);
  // What is there from an export before is checked and used.
  const auto cache = CacheFile::Open({.path = report.file, .verify_at_open = true});
  absl::Status status = Write(options, weights, *cache);
  if (status.ok()) {
    absl::StatusOr<std::string> manifest = ManifestOf(weights, report.file, report);
    status = manifest.ok() ? WriteManifest(report.manifest, *manifest) : manifest.status();
  }
  if (status.ok()) {
    RemoveOthers(options.out, name);
    return report;
  }
  if (!there) fs::remove(report.file, unknown);
  return status;
}

}  // namespace

absl::StatusOr<ExportReport> ExportWeights(const ExportOptions& options) {
  NPUBANK_ASSIGN_OR_RETURN(const auto model, Checkpoint::Open(options.model));
  NPUBANK_ASSIGN_OR_RETURN(const auto weights, WeightsOf(*model, options.weights));
  std::error_code error;
  const bool made = fs::create_directories(options.out, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the folder '", options.out, "' cannot be made: ", error.message()));
  }
  absl::StatusOr<ExportReport> report = ExportInto(options, weights);
  if (!report.ok() && made) fs::remove(options.out, error);
  return report;
}

}  // namespace npubank
