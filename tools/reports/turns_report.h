// TurnsReport: what several models in turn on one bank cost, as text and as JSON.
//
// JSON keys (bytes and counts are integers, times are seconds):
//   device, memory_strategy, memory_notices, live_source_bytes, device_bytes, device_peak_bytes,
//   peak_anonymous_bytes, peak_file_backed_bytes   as in run_report.h
//   models                    [{name, path, load_seconds, weight_bytes, submodels}]
//   turns                     [{round, model, switch_seconds, bytes_brought_back, evictions,
//                             transformations, cache_hits, first_token_seconds, prompt_tokens,
//                             generated_tokens, generated_tokens_per_second, ids, text}]
//   switch_seconds            of a turn: from the end of the last one until this model can run:
//                             weights brought back, arena and cache allocated
//   unique_weights, weight_bytes   of all models, each weight once
//   shared_by_recipe_bytes    what the models would need more without sharing equal recipes
//   shared_by_content_bytes   the most that equal bytes of different recipes saved at a time
//   budget_bytes              0: no limit
//   evictions, transformations, cache_hits   of loads and turns together
#ifndef NPUBANK_TOOLS_REPORTS_TURNS_REPORT_H_
#define NPUBANK_TOOLS_REPORTS_TURNS_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "npubank/tools/reports/run_report.h"

namespace npubank {

struct ModelReport {
  std::string name;
  std::string path;
  double load_seconds = 0;
  uint64_t weight_bytes = 0;
  std::vector<SubmodelReport> submodels;
};

struct TurnReport {
  int64_t round = 0;
  std::string model;
  double switch_seconds = 0;
  uint64_t bytes_brought_back = 0;
  uint64_t evictions = 0;
  uint64_t transformations = 0;
  uint64_t cache_hits = 0;
  double first_token_seconds = 0;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  double generated_tokens_per_second = 0;
  std::vector<int32_t> ids;
  std::string text;
};

struct TurnsReport {
  std::string device;
  std::string memory_strategy;
  std::vector<std::string> memory_notices;
  std::vector<ModelReport> models;
  std::vector<TurnReport> turns;
  uint64_t unique_weights = 0;
  uint64_t weight_bytes = 0;
  uint64_t shared_by_recipe_bytes = 0;
  uint64_t shared_by_content_bytes = 0;
  uint64_t budget_bytes = 0;
  uint64_t evictions = 0;
  uint64_t transformations = 0;
  uint64_t cache_hits = 0;
  uint64_t device_bytes = 0;
  uint64_t device_peak_bytes = 0;
  uint64_t live_source_bytes = 0;
  ProcessMemory peak_memory;
};

std::string TurnsReportAsText(const TurnsReport& report);
std::string TurnsReportAsJson(const TurnsReport& report);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_TURNS_REPORT_H_
