// RunReport: what bank-run measured, as text for people and as JSON for scripts.
//
// JSON keys (bytes and counts are integers, times are seconds):
//   device                    name of the device
//   ids, text                 prompt and generated tokens; their text when there is a vocabulary
//   prompt_tokens, generated_tokens
//   submodels                 [{name, calls, closures, weights, weight_bytes, hits, hit_bytes,
//                             arena_bytes}]
//   unique_weights            tensors in the bank
//   weight_bytes              W: their bytes
//   shared_bytes_saved        what further submodels would have cost without the bank
//   device_weight_bytes       what the weights occupy on the device, as the strategy rounds them
//   device_bytes              the driver's own count now
//   device_peak_bytes         and the most it was; where the driver does not tell, what was asked
//                             of it
//   expected_peak_bytes       W + A: weights, arena and cache, each held once; above it are the
//                             strategy's own room and, while loading, staging buffers
//   memory_strategy           committed, placed or tiled
//   memory_notices            what the driver lacks of what was asked for
//   imported_bytes            weights that are the file's own pages: no device memory, no copy
//   arena_bytes               A: the activation arena
//   cache_bytes               the key/value cache
//   transformations           weights that were computed from their source
//   cache_hits                weights that came from the cache file instead
//   live_source_bytes         source bytes still held after loading: must be 0
//   peak_anonymous_bytes      most anonymous memory of the process, a software NPU's included
//   peak_file_backed_bytes    most pages of mapped files: imported weights, which are no copies
//   load_seconds              open, compile, register, evaluate
//   compile_seconds           the part of it that submodels compiled beforehand would not need
//   first_token_seconds       from the prompt to its logits
//   prompt_tokens_per_second, generated_tokens_per_second   0 when nothing was run
#ifndef NPUBANK_TOOLS_REPORTS_RUN_REPORT_H_
#define NPUBANK_TOOLS_REPORTS_RUN_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tools/reports/memory_monitor.h"

namespace npubank {

struct SubmodelReport {
  std::string name;
  uint64_t calls = 0;
  uint64_t closures = 0;
  uint64_t weights = 0;
  uint64_t weight_bytes = 0;
  uint64_t hits = 0;
  uint64_t hit_bytes = 0;
  uint64_t arena_bytes = 0;
};

struct RunReport {
  std::string device;
  std::vector<int32_t> ids;
  std::string text;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  std::vector<SubmodelReport> submodels;
  uint64_t unique_weights = 0;
  uint64_t weight_bytes = 0;
  uint64_t shared_bytes_saved = 0;
  uint64_t device_weight_bytes = 0;
  uint64_t device_bytes = 0;
  uint64_t device_peak_bytes = 0;
  uint64_t expected_peak_bytes = 0;
  std::string memory_strategy;
  std::vector<std::string> memory_notices;
  uint64_t imported_bytes = 0;
  uint64_t arena_bytes = 0;
  uint64_t cache_bytes = 0;
  uint64_t transformations = 0;
  uint64_t cache_hits = 0;
  uint64_t live_source_bytes = 0;
  ProcessMemory peak_memory;
  double load_seconds = 0;
  double compile_seconds = 0;
  double first_token_seconds = 0;
  double prompt_tokens_per_second = 0;
  double generated_tokens_per_second = 0;
};

std::string ReportAsText(const RunReport& report);
std::string ReportAsJson(const RunReport& report);
nlohmann::ordered_json SubmodelsAsJson(const std::vector<SubmodelReport>& submodels);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_REPORTS_RUN_REPORT_H_
