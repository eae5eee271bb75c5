#include "npubank/tools/reports/turns_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "npubank/tools/reports/report_text.h"
#include "npubank/tools/reports/text_table.h"

namespace npubank {
namespace {

nlohmann::ordered_json TurnsAsJson(const std::vector<TurnReport>& turns) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const TurnReport& turn : turns)
    all.push_back({{"round", turn.round},
                   {"model", turn.model},
                   {"switch_seconds", turn.switch_seconds},
                   {"bytes_brought_back", turn.bytes_brought_back},
                   {"evictions", turn.evictions},
                   {"transformations", turn.transformations},
                   {"cache_hits", turn.cache_hits},
                   {"first_token_seconds", turn.first_token_seconds},
                   {"prompt_tokens", turn.prompt_tokens},
                   {"generated_tokens", turn.generated_tokens},
                   {"generated_tokens_per_second", turn.generated_tokens_per_second},
                   {"ids", turn.ids},
                   {"text", turn.text}});
  return all;
}

nlohmann::ordered_json ModelsAsJson(const std::vector<ModelReport>& models) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ModelReport& model : models)
    all.push_back({{"name", model.name},
                   {"path", model.path},
                   {"load_seconds", model.load_seconds},
                   {"weight_bytes", model.weight_bytes},
                   {"submodels", SubmodelsAsJson(model.submodels)}});
  return all;
}

}  // namespace

std::string TurnsReportAsText(const TurnsReport& report) {
  using Table = TextTable;
  Table models({{"model"}, {"weights", Table::kRight}, {"loaded in", Table::kRight}, {"from"}});
  for (const ModelReport& model : report.models)
    models.AddRow(
        {model.name, Mebibytes(model.weight_bytes), Milliseconds(model.load_seconds), model.path});
  Table turns({{"round", Table::kRight},
               {"model"},
               {"switch", Table::kRight},
               {"brought back", Table::kRight},
               {"evicted", Table::kRight},
               {"transformed", Table::kRight},
               {"from cache", Table::kRight},
               {"first token", Table::kRight},
               {"tokens/s", Table::kRight}});
  for (const TurnReport& turn : report.turns)
    turns.AddRow({absl::StrCat(turn.round), turn.model, Milliseconds(turn.switch_seconds),
                  Mebibytes(turn.bytes_brought_back), absl::StrCat(turn.evictions),
                  absl::StrCat(turn.transformations), absl::StrCat(turn.cache_hits),
                  Milliseconds(turn.first_token_seconds),
                  absl::StrFormat("%.1f", turn.generated_tokens_per_second)});
  std::string out = absl::StrCat("report (", report.device, ")\n", models.AsColumns(), "\n",
                                 turns.AsColumns(), "\n");
  ReportLine(out, "unique weights (W)",
             absl::StrCat(report.unique_weights, ", ", Mebibytes(report.weight_bytes)));
  ReportLine(out, "shared between models, recipes", Mebibytes(report.shared_by_recipe_bytes));
  ReportLine(out, "shared, equal contents", Mebibytes(report.shared_by_content_bytes));
  ReportLine(out, "budget", report.budget_bytes == 0 ? "none" : Mebibytes(report.budget_bytes));
  ReportLine(out, "evictions", absl::StrCat(report.evictions));
  ReportLine(out, "transformed / from a cache",
             absl::StrCat(report.transformations, " / ", report.cache_hits));
  ReportLine(
      out, "device memory now / peak",
      absl::StrCat(Mebibytes(report.device_bytes), " / ", Mebibytes(report.device_peak_bytes)));
  ReportLine(out, "memory strategy", MemoryInWords(report.memory_strategy, report.memory_notices));
  ReportLine(out, "source bytes still alive", absl::StrCat(report.live_source_bytes));
  ReportLine(out, "peak anonymous / file pages",
             absl::StrCat(Mebibytes(report.peak_memory.anonymous_bytes), " / ",
                          Mebibytes(report.peak_memory.file_backed_bytes)));
  return out;
}

std::string TurnsReportAsJson(const TurnsReport& report) {
  return JsonText({
      {"device", report.device},
      {"memory_strategy", report.memory_strategy},
      {"memory_notices", report.memory_notices},
      {"models", ModelsAsJson(report.models)},
      {"turns", TurnsAsJson(report.turns)},
      {"unique_weights", report.unique_weights},
      {"weight_bytes", report.weight_bytes},
      {"shared_by_recipe_bytes", report.shared_by_recipe_bytes},
      {"shared_by_content_bytes", report.shared_by_content_bytes},
      {"budget_bytes", report.budget_bytes},
      {"evictions", report.evictions},
      {"transformations", report.transformations},
      {"cache_hits", report.cache_hits},
      {"device_bytes", report.device_bytes},
      {"device_peak_bytes", report.device_peak_bytes},
      {"live_source_bytes", report.live_source_bytes},
      {"peak_anonymous_bytes", report.peak_memory.anonymous_bytes},
      {"peak_file_backed_bytes", report.peak_memory.file_backed_bytes},
  });
}

}  // namespace npubank
