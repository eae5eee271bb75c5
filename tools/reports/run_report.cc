#include "npubank/tools/reports/run_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "npubank/tools/reports/report_text.h"

namespace npubank {

std::string ReportAsText(const RunReport& report) {
  std::string out = absl::StrCat("report (", report.device, ")\n");
  for (const SubmodelReport& submodel : report.submodels)
    ReportLine(
        out, absl::StrCat("submodel ", submodel.name),
        absl::StrCat(submodel.calls, " calls, ", submodel.closures, " closures, ", submodel.weights,
                     " weights of ", Mebibytes(submodel.weight_bytes), "; ", submodel.hits,
                     " already in the bank (", Mebibytes(submodel.hit_bytes), "); arena ",
                     Mebibytes(submodel.arena_bytes)));
  ReportLine(out, "unique weights (W)",
             absl::StrCat(report.unique_weights, ", ", Mebibytes(report.weight_bytes)));
  ReportLine(out, "saved by sharing", Mebibytes(report.shared_bytes_saved));
  ReportLine(out, "weights on the device", Mebibytes(report.device_weight_bytes));
  ReportLine(
      out, "device memory now / peak",
      absl::StrCat(Mebibytes(report.device_bytes), " / ", Mebibytes(report.device_peak_bytes),
                   "; weights + activations: ", Mebibytes(report.expected_peak_bytes)));
  ReportLine(out, "memory strategy", MemoryInWords(report.memory_strategy, report.memory_notices));
  ReportLine(out, "imported, not copied", Mebibytes(report.imported_bytes));
  ReportLine(out, "activation arena (A)", Mebibytes(report.arena_bytes));
  ReportLine(out, "key/value cache", Mebibytes(report.cache_bytes));
  ReportLine(out, "transformed / from a cache",
             absl::StrCat(report.transformations, " / ", report.cache_hits));
  ReportLine(out, "source bytes still alive", absl::StrCat(report.live_source_bytes));
  ReportLine(out, "peak anonymous / file pages",
             absl::StrCat(Mebibytes(report.peak_memory.anonymous_bytes), " / ",
                          Mebibytes(report.peak_memory.file_backed_bytes)));
  ReportLine(out, "load time",
             absl::StrFormat("%.4f s, of which compiling %.4f s", report.load_seconds,
                             report.compile_seconds));
  if (report.prompt_tokens + report.generated_tokens > 0) {
    ReportLine(
        out, "prompt",
        absl::StrFormat("%d tokens, %.1f tokens/s; first token after %.3f s", report.prompt_tokens,
                        report.prompt_tokens_per_second, report.first_token_seconds));
    ReportLine(out, "generation",
               absl::StrFormat("%d tokens, %.1f tokens/s", report.generated_tokens,
                               report.generated_tokens_per_second));
  }
  return out;
}

nlohmann::ordered_json SubmodelsAsJson(const std::vector<SubmodelReport>& submodels) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const SubmodelReport& submodel : submodels)
    all.push_back({{"name", submodel.name},
                   {"calls", submodel.calls},
                   {"closures", submodel.closures},
                   {"weights", submodel.weights},
                   {"weight_bytes", submodel.weight_bytes},
                   {"hits", submodel.hits},
                   {"hit_bytes", submodel.hit_bytes},
                   {"arena_bytes", submodel.arena_bytes}});
  return all;
}

std::string ReportAsJson(const RunReport& report) {
  return JsonText({
      {"device", report.device},
      {"ids", report.ids},
      {"text", report.text},
      {"prompt_tokens", report.prompt_tokens},
      {"generated_tokens", report.generated_tokens},
      {"submodels", SubmodelsAsJson(report.submodels)},
      {"unique_weights", report.unique_weights},
      {"weight_bytes", report.weight_bytes},
      {"shared_bytes_saved", report.shared_bytes_saved},
      {"device_weight_bytes", report.device_weight_bytes},
      {"device_bytes", report.device_bytes},
      {"device_peak_bytes", report.device_peak_bytes},
      {"expected_peak_bytes", report.expected_peak_bytes},
      {"memory_strategy", report.memory_strategy},
      {"memory_notices", report.memory_notices},
      {"imported_bytes", report.imported_bytes},
      {"arena_bytes", report.arena_bytes},
      {"cache_bytes", report.cache_bytes},
      {"transformations", report.transformations},
      {"cache_hits", report.cache_hits},
      {"live_source_bytes", report.live_source_bytes},
      {"peak_anonymous_bytes", report.peak_memory.anonymous_bytes},
      {"peak_file_backed_bytes", report.peak_memory.file_backed_bytes},
      {"load_seconds", report.load_seconds},
      {"compile_seconds", report.compile_seconds},
      {"first_token_seconds", report.first_token_seconds},
      {"prompt_tokens_per_second", report.prompt_tokens_per_second},
      {"generated_tokens_per_second", report.generated_tokens_per_second},
  });
}

}  // namespace npubank
