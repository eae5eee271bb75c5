// WeightsExport: a model's weights in one file that any program may map, and a manifest in JSON that says what lies where.
//
//   NPUBANK_ASSIGN_OR_RETURN(ExportReport report,
//                            ExportWeights({.model = "path/to/model", .out = "folder", .weights = WeightFormat::kF16}));
//
// The file is the bank's own cache (bank/files/cache_file.h): every tensor begins at a multiple of 4096, and a bank that is
// given it as its cache transforms nothing. Its name has a digest of what is in it. The manifest, DIR/weights.json:
//
//   {"npubank_export": 1, "file": "weights-<32 digits>.cache",
//    "weights": [{"name": "lm_head.weight", "part": "weight", "type": "F16", "shape": [768, 32000],
//                 "offset": 4096, "bytes": 49152000, "digest": "<32 digits>"}, ...]}
//
// `digest` is XXH3-128 of the bytes. Weights of equal recipes lie there once, and are listed under each name.
//
// The manifest is renamed into place last, so that whoever reads it finds a whole file behind it, also after a crash at
// any moment; then exports that it named before are removed. A failure leaves the folder as it was.
// Memory: no weight is held, but two pieces of 24 MiB: one is computed while the other is written (evaluated_ahead.h),
// past the page cache where the file system can. Threads: one export into a folder at a time.
// Errors: those of Checkpoint::Open and Compile; of a source that changes, DataLoss; SystemError (base/files) when
// it cannot be written, naming the file.
#ifndef NPUBANK_TOOLS_EXPORT_WEIGHTS_EXPORT_H_
#define NPUBANK_TOOLS_EXPORT_WEIGHTS_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/compiler_stub/compile_options.h"
#include "npubank/lazy_tensor/base/parallel.h"

namespace npubank {

struct ExportOptions {
  std::string model;  // a folder or file, as Checkpoint::Open takes it
  std::string out;    // a folder; made if it is not there
  WeightFormat weights = WeightFormat::kAuto;
  Workers* workers = nullptr;  // not owned; null: on this thread
  std::function<void(uint64_t done, uint64_t total, absl::string_view weight)> progress = nullptr;
};

struct ExportReport {
  std::string manifest, file;  // their paths
  uint64_t weights = 0;        // parts, each under its name
  uint64_t bytes = 0;          // of tensors in the file, equal ones once
};

absl::StatusOr<ExportReport> ExportWeights(const ExportOptions& options);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_EXPORT_WEIGHTS_EXPORT_H_
