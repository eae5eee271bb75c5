#include "npubank/tools/run/run_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "npubank/tools/reports/report_text.h"
#include "npubank/tools/reports/text_table.h"

namespace npubank {
namespace {

using Json = nlohmann::ordered_json;

// One model in at most one turn: what there is to say needs no tables.
bool Single(const RunReport& report) {
  return report.models.size() == 1 && report.turns.size() <= 1;
}

void AppendSubmodels(std::string& out, const ModelReport& model) {
  for (const SubmodelReport& submodel : model.submodels)
    ReportLine(
        out, absl::StrCat("submodel ", submodel.name),
        absl::StrCat(submodel.calls, " calls, ", submodel.closures, " closures, ", submodel.weights,
                     " weights of ", Mebibytes(submodel.weight_bytes), "; ", submodel.hits,
                     " already in the bank (", Mebibytes(submodel.hit_bytes), "); arena ",
                     Mebibytes(submodel.arena_bytes)));
  if (!model.converted.empty())
    ReportLine(out, "not used as stored", absl::StrJoin(model.converted, "; "));
}

void AppendTables(std::string& out, const RunReport& report) {
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
  absl::StrAppend(&out, models.AsColumns(), "\n", turns.AsColumns(), "\n");
}

void AppendSharing(std::string& out, const RunReport& report) {
  ReportLine(out, "unique weights (W)",
             absl::StrCat(report.unique_weights, ", ", Mebibytes(report.weight_bytes)));
  ReportLine(out, "saved by sharing", Mebibytes(report.shared_bytes_saved));
  if (Single(report)) return;
  ReportLine(out, "shared between models, recipes", Mebibytes(report.shared_by_recipe_bytes));
  ReportLine(out, "shared, equal contents", Mebibytes(report.shared_by_content_bytes));
  ReportLine(out, "budget", report.budget_bytes == 0 ? "none" : Mebibytes(report.budget_bytes));
  ReportLine(out, "evictions", absl::StrCat(report.evictions));
}

std::string AuditInWords(const AuditFigures& audit) {
  if (!audit.discrepancies.empty()) return absl::StrJoin(audit.discrepancies, "; ");
  return absl::StrCat(
      "OK: weights ", Mebibytes(audit.weight_bytes), " + activations ",
      Mebibytes(audit.other_bytes), ", counted ", Mebibytes(audit.counted_bytes), "; imported ",
      Mebibytes(audit.imported_bytes),
      audit.upstream_bytes == 0 ? ""
                                : absl::StrCat(", npubankd's ", Mebibytes(audit.upstream_bytes)),
      "; driver ", audit.driver_bytes ? Mebibytes(*audit.driver_bytes) : "cannot be asked");
}

std::string MisalignedInWords(const RunReport& report) {
  return absl::StrCat(Mebibytes(report.misaligned_bytes), " of ", report.misaligned_weights,
                      " weights, which do not lie at multiples of ", report.argument_alignment,
                      " in their files; with --cache the next start imports them");
}

std::string ServiceInWords(const RunReport& report) {
  const std::string notices = absl::StrJoin(report.service_notices, "; ");
  if (report.service_hits == 0) {
    return absl::StrCat(report.service, notices.empty() ? "" : ": ", notices);
  }
  return absl::StrCat(Mebibytes(report.service_bytes), " of ", report.service_hits,
                      " weights are pages of ", report.service, notices.empty() ? "" : "; ",
                      notices);
}

void AppendMemory(std::string& out, const RunReport& report) {
  ReportLine(out, "weights on the device", Mebibytes(report.device_weight_bytes));
  ReportLine(
      out, "device memory now / peak",
      absl::StrCat(Mebibytes(report.device_bytes), " / ", Mebibytes(report.device_peak_bytes),
                   "; weights + activations: ", Mebibytes(report.expected_peak_bytes)));
  ReportLine(out, "memory strategy", MemoryInWords(report.memory_strategy, report.memory_notices));
  ReportLine(out, "imported, not copied", Mebibytes(report.imported_bytes));
  if (report.misaligned_weights > 0)
    ReportLine(out, "copied, not aligned", MisalignedInWords(report));
  ReportLine(out, "activation arena (A)", Mebibytes(report.arena_bytes));
  ReportLine(out, "key/value cache", Mebibytes(report.cache_bytes));
  ReportLine(out, "transformed / from a cache",
             absl::StrCat(report.transformations, " / ", report.cache_hits));
  if (!report.cache_notices.empty())
    ReportLine(out, "weights cache", absl::StrJoin(report.cache_notices, "; "));
  ReportLine(out, "service", ServiceInWords(report));
  ReportLine(out, "source bytes still alive", absl::StrCat(report.live_source_bytes));
  ReportLine(out, "audit", AuditInWords(report.audit));
  ReportLine(out, "peak anonymous / file pages",
             absl::StrCat(Mebibytes(report.peak_memory.anonymous_bytes), " / ",
                          Mebibytes(report.peak_memory.file_backed_bytes)));
}

void AppendSpeed(std::string& out, const RunReport& report) {
  ReportLine(out, "load time",
             absl::StrFormat("%.4f s, of which compiling %.4f s", report.load_seconds(),
                             report.compile_seconds()));
  if (!Single(report) || report.turns.empty()) return;
  const TurnReport& turn = report.turns[0];
  ReportLine(
      out, "prompt",
      absl::StrFormat("%d tokens, %.1f tokens/s; first token after %.3f s", turn.prompt_tokens,
                      turn.prompt_tokens_per_second, turn.first_token_seconds));
  ReportLine(out, "generation",
             absl::StrFormat("%d tokens, %.1f tokens/s", turn.generated_tokens,
                             turn.generated_tokens_per_second));
}

void AppendSleep(std::string& out, const SleepFigures& sleep) {
  ReportLine(out, "slept",
             absl::StrCat("weights gave ", Mebibytes(sleep.bytes_given_back), " and ",
                          Mebibytes(sleep.imported_bytes_given_back), " of imports back; ",
                          Mebibytes(sleep.weight_bytes_left), " stayed (leased ",
                          Mebibytes(sleep.bytes_leased), ", without a way back ",
                          Mebibytes(sleep.bytes_without_way_back), "); the driver held ",
                          Mebibytes(sleep.device_bytes)));
  ReportLine(out, "woke",
             absl::StrCat(Mebibytes(sleep.bytes_brought_back), " back in ",
                          Milliseconds(sleep.wake_seconds), ", and ",
                          sleep.same_ids ? "said the same" : "said SOMETHING ELSE"));
}

Json SubmodelsAsJson(const std::vector<SubmodelReport>& submodels) {
  Json all = Json::array();
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

Json ModelsAsJson(const std::vector<ModelReport>& models) {
  Json all = Json::array();
  for (const ModelReport& model : models)
    all.push_back({{"name", model.name},
                   {"path", model.path},
                   {"load_seconds", model.load_seconds},
                   {"compile_seconds", model.compile_seconds},
                   {"weights_seconds", model.weights_seconds},
                   {"weight_bytes", model.weight_bytes},
                   {"converted", model.converted},
                   {"submodels", SubmodelsAsJson(model.submodels)}});
  return all;
}

// What a generation measured.
Json SpeechAsJson(const TurnReport& turn) {
  return {{"first_token_seconds", turn.first_token_seconds},
          {"prompt_tokens", turn.prompt_tokens},
          {"generated_tokens", turn.generated_tokens},
          {"prompt_tokens_per_second", turn.prompt_tokens_per_second},
          {"generated_tokens_per_second", turn.generated_tokens_per_second},
          {"ids", turn.ids},
          {"text", turn.text}};
}

Json TurnsAsJson(const std::vector<TurnReport>& turns) {
  Json all = Json::array();
  for (const TurnReport& turn : turns) {
    Json one = {{"round", turn.round},
                {"model", turn.model},
                {"switch_seconds", turn.switch_seconds},
                {"bytes_brought_back", turn.bytes_brought_back},
                {"evictions", turn.evictions},
                {"transformations", turn.transformations},
                {"cache_hits", turn.cache_hits}};
    one.update(SpeechAsJson(turn));
    all.push_back(std::move(one));
  }
  return all;
}

Json AuditAsJson(const AuditFigures& audit) {
  Json json = {{"clean", audit.discrepancies.empty()},
               {"weight_bytes", audit.weight_bytes},
               {"other_bytes", audit.other_bytes},
               {"counted_bytes", audit.counted_bytes},
               {"imported_bytes", audit.imported_bytes},
               {"upstream_bytes", audit.upstream_bytes},
               {"driver_bytes", nullptr},
               {"discrepancies", audit.discrepancies}};
  if (audit.driver_bytes) json["driver_bytes"] = *audit.driver_bytes;
  return json;
}

Json SleepAsJson(const SleepFigures& sleep) {
  return {{"bytes_given_back", sleep.bytes_given_back},
          {"imported_bytes_given_back", sleep.imported_bytes_given_back},
          {"bytes_leased", sleep.bytes_leased},
          {"bytes_without_way_back", sleep.bytes_without_way_back},
          {"weight_bytes_left", sleep.weight_bytes_left},
          {"device_bytes", sleep.device_bytes},
          {"wake_seconds", sleep.wake_seconds},
          {"bytes_brought_back", sleep.bytes_brought_back},
          {"same_ids", sleep.same_ids}};
}

Json FiguresAsJson(const RunReport& report) {
  return {
      {"unique_weights", report.unique_weights},
      {"weight_bytes", report.weight_bytes},
      {"shared_bytes_saved", report.shared_bytes_saved},
      {"shared_by_recipe_bytes", report.shared_by_recipe_bytes},
      {"shared_by_content_bytes", report.shared_by_content_bytes},
      {"device_weight_bytes", report.device_weight_bytes},
      {"device_bytes", report.device_bytes},
      {"device_peak_bytes", report.device_peak_bytes},
      {"expected_peak_bytes", report.expected_peak_bytes},
      {"memory_strategy", report.memory_strategy},
      {"memory_notices", report.memory_notices},
      {"imported_bytes", report.imported_bytes},
      {"misaligned_weights", report.misaligned_weights},
      {"misaligned_bytes", report.misaligned_bytes},
      {"argument_alignment", report.argument_alignment},
      {"budget_bytes", report.budget_bytes},
      {"arena_bytes", report.arena_bytes},
      {"cache_bytes", report.cache_bytes},
      {"evictions", report.evictions},
      {"transformations", report.transformations},
      {"cache_hits", report.cache_hits},
      {"cache_notices", report.cache_notices},
      {"service", report.service},
      {"service_hits", report.service_hits},
      {"service_bytes", report.service_bytes},
      {"service_notices", report.service_notices},
      {"live_source_bytes", report.live_source_bytes},
      {"peak_anonymous_bytes", report.peak_memory.anonymous_bytes},
      {"peak_file_backed_bytes", report.peak_memory.file_backed_bytes},
      {"load_seconds", report.load_seconds()},
      {"compile_seconds", report.compile_seconds()},
      {"weights_seconds", report.weights_seconds()},
      {"audit", AuditAsJson(report.audit)},
  };
}

}  // namespace

double RunReport::load_seconds() const {
  double seconds = 0;
  for (const ModelReport& model : models) seconds += model.load_seconds;
  return seconds;
}

double RunReport::compile_seconds() const {
  double seconds = 0;
  for (const ModelReport& model : models) seconds += model.compile_seconds;
  return seconds;
}

double RunReport::weights_seconds() const {
  double seconds = 0;
  for (const ModelReport& model : models) seconds += model.weights_seconds;
  return seconds;
}

std::string ReportAsText(const RunReport& report) {
  std::string out = absl::StrCat("report (", report.device, ")\n");
  if (Single(report)) {
    AppendSubmodels(out, report.models[0]);
  } else {
    AppendTables(out, report);
  }
  AppendSharing(out, report);
  AppendMemory(out, report);
  AppendSpeed(out, report);
  if (report.sleep) AppendSleep(out, *report.sleep);
  return out;
}

std::string ReportAsJson(const RunReport& report) {
  Json json = {{"device", report.device}};
  if (Single(report)) {
    json.update(SpeechAsJson(report.turns.empty() ? TurnReport() : report.turns[0]));
    json["submodels"] = SubmodelsAsJson(report.models[0].submodels);
  }
  json["models"] = ModelsAsJson(report.models);
  json["turns"] = TurnsAsJson(report.turns);
  json.update(FiguresAsJson(report));
  if (report.sleep) json["sleep"] = SleepAsJson(*report.sleep);
  return JsonText(json);
}

}  // namespace npubank
