#include "npubank/tools/export/weights_export.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
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
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/recipe/recipe_list.h"
#include "npubank/tools/export/evaluated_ahead.h"

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

// Those that the file has not got yet, each once.
std::vector<NamedWeight> MissingOf(const std::vector<NamedWeight>& weights, const CacheFile& file) {
  std::set<Digest> seen;
  std::vector<NamedWeight> missing;
  for (const NamedWeight& weight : weights) {
    if (!seen.insert(weight.key).second) continue;
    if (!file.Find(weight.key, weight.tensor.type().bytes())) missing.push_back(weight);
  }
  return missing;
}

absl::Status Write(const ExportOptions& options, const std::vector<NamedWeight>& missing,
                   CacheFile& file) {
  std::vector<LazyTensor> tensors;
  uint64_t done = 0, total = 0;
  for (const NamedWeight& weight : missing) {
    tensors.push_back(weight.tensor);
    total += weight.tensor.type().bytes();
  }
  EvaluateOptions evaluate;
  evaluate.workers = options.workers;
  evaluate.f16_must_hold = true;  // as a bank asks
  EvaluatedAhead evaluated(std::move(tensors), evaluate);
  for (size_t i = 0; i < missing.size(); ++i) {
    const NamedWeight& weight = missing[i];
    const uint64_t bytes = weight.tensor.type().bytes();
    const auto next = [&](uint64_t offset) { return evaluated.From(i, offset); };
    NPUBANK_RETURN_IF_ERROR(Annotate(file.Add(weight.key, bytes, next),
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
  const auto cache =
      CacheFile::Open({.path = report.file, .write_directly = true, .verify_at_open = true});
  absl::Status status = Write(options, MissingOf(weights, *cache), *cache);
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
