#include "npubank/tools/run/manifest_run.h"

#include <cstddef>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/files/atomic_file.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/open_index.h"
#include "npubank/runtime/manifest/manifest.h"
#include "npubank/tools/reports/report_text.h"

namespace npubank {
namespace {

using Placement = SubmodelDescription::Placement;

constexpr uint64_t kMostFileBytes = uint64_t{1} << 40;

// The names that there are, by what they are.
struct Names {
  std::set<std::string> inputs;
  std::set<std::string> outputs;
  std::set<std::string> states;
};

Names NamesOf(const SubmodelGroup& group) {
  Names names;
  for (const Submodel& submodel : group.submodels())
    for (const SubmodelDescription::Value& value : submodel.description().values) {
      if (value.placement == Placement::kInput) names.inputs.insert(value.name);
      if (value.placement == Placement::kOutput) names.outputs.insert(value.name);
      if (value.placement == Placement::kState) names.states.insert(value.name);
    }
  // What one submodel gives another takes it from there.
  for (const std::string& name : names.outputs) names.inputs.erase(name);
  return names;
}

absl::Status CheckNames(const ManifestRunOptions& options, const Names& names) {
  for (const auto& [name, file] : options.inputs)
    if (names.inputs.count(name) + names.states.count(name) == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("--input ", name, "=", file, ": no submodel has such an input or state"));
  for (const auto& [name, file] : options.outputs)
    if (names.outputs.count(name) + names.states.count(name) == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("--output ", name, "=", file, ": no submodel has such an output or state"));
  if (options.load_only) return absl::OkStatus();
  for (const std::string& name : names.inputs)
    if (options.inputs.count(name) == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("input '", name, "' needs a file: --input ", name, "=FILE"));
  return absl::OkStatus();
}

absl::Status ReadInputs(const ManifestRunOptions& options, const Names& names,
                        SubmodelGroup& group) {
  std::map<std::string, std::string> states;
  for (const auto& [name, file] : options.inputs) {
    NPUBANK_ASSIGN_OR_RETURN(std::string bytes, ReadTextFile(file, kMostFileBytes));
    if (names.states.count(name) > 0) {
      states[name] = std::move(bytes);
      continue;
    }
    const absl::Span<std::byte> buffer = group.Buffer(name);
    if (bytes.size() != buffer.size())
      return absl::InvalidArgumentError(absl::StrCat("--input ", name, "=", file, " has ",
                                                     bytes.size(), " bytes, but the input has ",
                                                     buffer.size()));
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
  }
  return group.SetStates(states);
}

absl::Status WriteOutput(const std::string& path, absl::string_view bytes) {
  NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NPUBANK_RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

absl::Status WriteOutputs(const ManifestRunOptions& options, const Names& names,
                          const SubmodelGroup& group, std::string& report) {
  for (const auto& [name, file] : options.outputs) {
    std::string bytes;
    if (names.states.count(name) > 0) {
      NPUBANK_ASSIGN_OR_RETURN(bytes, group.ReadState(name));
    } else {
      const absl::Span<std::byte> buffer = group.Buffer(name);
      bytes.assign(reinterpret_cast<const char*>(buffer.data()), buffer.size());
    }
    NPUBANK_RETURN_IF_ERROR(WriteOutput(file, bytes));
    ReportLine(report, name, absl::StrCat(bytes.size(), " bytes, written to ", file));
  }
  return absl::OkStatus();
}

void Describe(const Submodel& submodel, std::string& report) {
  const SubmodelDescription& description = submodel.description();
  ReportLine(report, submodel.name(),
             absl::StrCat(description.calls.size(), " calls of ", description.functions.size(),
                          " functions; ", description.weights.size(), " weights of ",
                          Mebibytes(submodel.weight_bytes()), "; ", submodel.hits(),
                          " already in the bank; arena ", Mebibytes(description.arena_bytes)));
}

absl::StatusOr<std::unique_ptr<SubmodelGroup>> Load(const ManifestRunOptions& options,
                                                    const std::shared_ptr<Npu>& npu,
                                                    const std::shared_ptr<Bank>& bank) {
  std::shared_ptr<const SourceIndex> index;
  if (!options.model.empty()) {
    NPUBANK_ASSIGN_OR_RETURN(OpenedIndex model, OpenIndex(options.model));
    index = std::move(model.index);
  }
  std::vector<SubmodelDescription> descriptions;
  for (const std::string& manifest : options.manifests) {
    NPUBANK_ASSIGN_OR_RETURN(SubmodelDescription description, ReadManifest(manifest, index));
    descriptions.push_back(std::move(description));
  }
  NPUBANK_ASSIGN_OR_RETURN(auto group,
                           SubmodelGroup::Register(npu, bank, std::move(descriptions), ""));
  NPUBANK_RETURN_IF_ERROR(group->MakeFunctions());
  return group;
}

}  // namespace

absl::StatusOr<ManifestRun> RunManifests(const ManifestRunOptions& options,
                                         const std::shared_ptr<Npu>& npu,
                                         const std::shared_ptr<Bank>& bank) {
  ManifestRun made;
  NPUBANK_ASSIGN_OR_RETURN(made.group, Load(options, npu, bank));
  SubmodelGroup& group = *made.group;
  const Names names = NamesOf(group);
  NPUBANK_RETURN_IF_ERROR(CheckNames(options, names));
  NPUBANK_RETURN_IF_ERROR(group.Prepare());
  for (const Submodel& submodel : group.submodels()) Describe(submodel, made.report);
  if (options.load_only) return made;
  NPUBANK_RETURN_IF_ERROR(ReadInputs(options, names, group));
  for (int64_t run = 0; run < options.runs; ++run)
    for (size_t submodel = 0; submodel < group.submodels().size(); ++submodel)
      NPUBANK_RETURN_IF_ERROR(group.Run(submodel));
  NPUBANK_RETURN_IF_ERROR(WriteOutputs(options, names, group, made.report));
  return made;
}

}  // namespace npubank
