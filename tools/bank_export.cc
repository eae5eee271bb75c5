// bank-export: writes a model's weights into one file that other programs map, with a manifest in JSON.
//
//   bank-export --model DIR --weights f16 --out FOLDER
#include <cstdio>
#include <string>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/terminal/command_line.h"
#include "npubank/tools/terminal/progress_bar.h"
#include "npubank/tools/export/weights_export.h"

ABSL_FLAG(std::string, model, "", "a folder or a .gguf file");
ABSL_FLAG(std::string, out, "",
          "folder for weights.json and the file that it names; made if it does not exist");
ABSL_FLAG(std::string, weights, "auto",
          "auto, keep, packed, f32, f16 or bf16, as bank-run has them");
ABSL_FLAG(int, workers, -1, "threads that evaluate weights; 0: inline; -1: one per core");

namespace npubank {
namespace {

ProgramHelp Help() {
  return {
      .name = "bank-export",
      .purpose = "writes a model's weights into one file that other programs map, with a manifest",
      .examples = {"bank-export --model DIR --weights f16 --out FOLDER",
                   "bank-run --model DIR --weights f16 --cache FOLDER/weights-*.cache     "
                   "transforms nothing"},
      .groups = {{"From where to where", {{"model", "PATH"}, {"out", "DIR"}}},
                 {"How", {{"weights", "TYPE"}, {"workers", "N"}}}}};
}

absl::Status Run(int argc, char** argv) {
  NPUBANK_RETURN_IF_ERROR(RefuseArguments(ParseFlags(Help(), argc, argv)));
  const std::string name = absl::GetFlag(FLAGS_weights);
  const auto format = WeightFormatFromName(name);
  if (!format) {
    return absl::InvalidArgumentError(
        absl::StrCat("--weights '", name, "' is none of auto, keep, packed, f32, f16, bf16"));
  }
  ExportOptions options{
      .model = absl::GetFlag(FLAGS_model), .out = absl::GetFlag(FLAGS_out), .weights = *format};
  if (options.model.empty() || options.out.empty()) {
    return absl::InvalidArgumentError("give --model PATH and --out DIR; --help says more");
  }
  int threads = absl::GetFlag(FLAGS_workers);
  if (threads < -1) return absl::InvalidArgumentError(absl::StrCat("--workers ", threads));
  if (threads == -1) threads = static_cast<int>(std::thread::hardware_concurrency());
  ThreadWorkers workers(threads);
  options.workers = &workers;
  ProgressBar bar("exporting");
  options.progress = [&bar](uint64_t done, uint64_t total, absl::string_view weight) {
    bar.Show(done, total, weight);
  };
  NPUBANK_ASSIGN_OR_RETURN(const ExportReport report, ExportWeights(options));
  std::printf("%s: %llu weights, %llu bytes in %s\n", report.manifest.c_str(),
              static_cast<unsigned long long>(report.weights),
              static_cast<unsigned long long>(report.bytes), report.file.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) { return npubank::ExitStatus(npubank::Run(argc, argv)); }
