// ManifestRun: submodels of another compiler, run as their manifests say, with inputs from files
// and outputs to files.
//
//   ManifestRunOptions options;
//   options.manifests = {"layers.json"};
//   options.inputs = {{"x", "x.bin"}};
//   options.outputs = {{"y", "y.bin"}};
//   NPUBANK_ASSIGN_OR_RETURN(ManifestRun run, RunManifests(options, place.npu, place.bank));
//
// Files are the bytes of inputs, outputs and states as they lie in memory. Each run runs every
// submodel, one after the other; what one gives under a name another takes. States go on from run
// to run and begin as their file says, or as zeros. Returns what was loaded and written, in words.
// Errors name the file, value or option: an input without a file or of another size, a name that no
// submodel has; those of ReadManifest and SubmodelGroup.
#ifndef NPUBANK_TOOLS_RUN_MANIFEST_RUN_H_
#define NPUBANK_TOOLS_RUN_MANIFEST_RUN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "npubank/bank/bank.h"
#include "npubank/runtime/npu.h"
#include "npubank/runtime/submodel_group.h"

namespace npubank {

struct ManifestRunOptions {
  std::vector<std::string> manifests;  // files, in the order they run
  std::string model;                   // in place of the manifests' own, when it is not empty
  std::map<std::string, std::string> inputs;   // a file by the name of an input or state
  std::map<std::string, std::string> outputs;  // a file by the name of an output or state
  int64_t runs = 1;
  bool load_only = false;  // whatever there is to load, but no run
};

struct ManifestRun {
  std::string report;
  std::unique_ptr<SubmodelGroup> group;  // keeps what was loaded
};

absl::StatusOr<ManifestRun> RunManifests(const ManifestRunOptions& options,
                                         const std::shared_ptr<Npu>& npu,
                                         const std::shared_ptr<Bank>& bank);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_RUN_MANIFEST_RUN_H_
