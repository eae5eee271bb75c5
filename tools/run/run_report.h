// RunReport: what bank-run measured, of one model or of several in turn, as text for people and as
// JSON for scripts.
//
//   std::fputs(ReportAsText(turns->Report()).c_str(), stdout);
//
// JSON keys (bytes and counts are integers, times are seconds):
//   device                    name of the device
//   models                    [{name, path, load_seconds, compile_seconds, weight_bytes, submodels:
//                             [{name, calls, closures, weights, weight_bytes, hits, hit_bytes,
//                             arena_bytes}]}]
//   turns                     [{round, model, switch_seconds, bytes_brought_back, evictions,
//                             transformations, cache_hits, first_token_seconds, prompt_tokens,
//                             generated_tokens, prompt_tokens_per_second,
//                             generated_tokens_per_second, ids, text}]
//   switch_seconds            of a turn: from the end of the last one until this model can run:
//                             weights brought back, arena and cache allocated
//   first_token_seconds       from the prompt to its logits
//   ids, text                 prompt and generated tokens; their text when there is a vocabulary
//   unique_weights            tensors in the bank
//   weight_bytes              W: their bytes, each counted once
//   shared_bytes_saved        what submodels and models would need more without sharing
//   shared_by_recipe_bytes    the part of it that models share, of equal recipes
//   shared_by_content_bytes   the most that equal bytes of different recipes saved at a time
//   device_weight_bytes       the same weights as allocated on the device
//   device_bytes              what the driver holds at the end; device_peak_bytes: the most it held
//   expected_peak_bytes       W + A: weights, arena and cache, each held once; above it are the
//                             strategy's own room and, while loading, staging buffers
//   memory_strategy           committed, placed or tiled
//   memory_notices            what the driver lacks of what was asked for
//   imported_bytes            weights that are the file's own pages: no device memory, no copy
//   misaligned_weights        weights that are copied only because they lie in their files where the device
//                             takes no argument; misaligned_bytes: their bytes
//   argument_alignment        what the device wants arguments to be multiples of
//   budget_bytes              what weights may take of the device; 0: no limit
//   arena_bytes               A: the activation arena, the largest of all models
//   cache_bytes               the key/value caches
//   evictions                 weights that left the device to make room
//   transformations           weights that were computed from their source
//   cache_hits                weights that came from the cache file instead
//   cache_notices             what was wrong with the cache file, each thing once
//   service                   the bank of the machine that was asked, or why none was
//   service_hits              weights that are its pages; service_bytes: their bytes
//   service_notices           why others are not, each thing once
//   live_source_bytes         source bytes still held after loading: must be 0
//   peak_anonymous_bytes      most anonymous memory of the process, a software NPU's included
//   peak_file_backed_bytes    most pages of mapped files: imported weights, which are no copies
//   load_seconds              open, compile, register, evaluate
//   compile_seconds           the part of it that submodels compiled beforehand would not need
//   weights_seconds           the part of it in which the bank made the weights resident
//   converted                 of a model: what `auto` did not use as it is stored, for want of a function
//   audit                     {clean, weight_bytes, other_bytes, counted_bytes, imported_bytes,
//                             driver_bytes, discrepancies}: the bank's books, and what arenas and
//                             caches hold, against the count of the device's memory and the
//                             driver's own
//   sleep                     with --sleep: {bytes_given_back, imported_bytes_given_back,
//                             bytes_leased, bytes_without_way_back, weight_bytes_left,
//                             device_bytes, wake_seconds, bytes_brought_back, same_ids}
// One model in one turn has the keys of its model and turn once more beside the others: ids, text,
// prompt_tokens, generated_tokens, submodels, first_token_seconds, prompt_tokens_per_second,
// generated_tokens_per_second; 0 when nothing was run.
#ifndef NPUBANK_TOOLS_RUN_RUN_REPORT_H_
#define NPUBANK_TOOLS_RUN_RUN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "npubank/tools/run/memory_monitor.h"

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

struct ModelReport {
  std::string name;
  std::string path;
  double load_seconds = 0;
  double compile_seconds = 0;
  double weights_seconds = 0;
  uint64_t weight_bytes = 0;
  std::vector<SubmodelReport> submodels;
  std::vector<std::string> converted = {};  // by `auto`: "BF16 to F16: 21 weights"
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
  double prompt_tokens_per_second = 0;
  double generated_tokens_per_second = 0;
  std::vector<int32_t> ids;
  std::string text;
};

// What left when all models slept, and what it took to have them back.
struct SleepFigures {
  uint64_t bytes_given_back = 0;
  uint64_t imported_bytes_given_back = 0;  // pages of files, which are in no other count
  uint64_t bytes_leased = 0;
  uint64_t bytes_without_way_back = 0;
  uint64_t weight_bytes_left = 0;  // still on the device
  uint64_t device_bytes = 0;       // what the driver held meanwhile
  double wake_seconds = 0;
  uint64_t bytes_brought_back = 0;
  bool same_ids = true;  // each model said what it had said before
};

struct AuditFigures {
  uint64_t weight_bytes = 0;
  uint64_t other_bytes = 0;  // arenas and caches
  uint64_t counted_bytes = 0;
  uint64_t imported_bytes = 0;                // beside them
  uint64_t upstream_bytes = 0;                // of these, the pages of a daemon
  std::optional<uint64_t> driver_bytes = {};  // none where the driver cannot be asked
  std::vector<std::string> discrepancies = {};
};

struct RunReport {
  std::string device;
  std::vector<ModelReport> models;
  std::vector<TurnReport> turns;
  uint64_t unique_weights = 0;
  uint64_t weight_bytes = 0;
  uint64_t shared_bytes_saved = 0;
  uint64_t shared_by_recipe_bytes = 0;
  uint64_t shared_by_content_bytes = 0;
  uint64_t device_weight_bytes = 0;
  uint64_t device_bytes = 0;
  uint64_t device_peak_bytes = 0;
  uint64_t expected_peak_bytes = 0;
  std::string memory_strategy;
  std::vector<std::string> memory_notices;
  uint64_t imported_bytes = 0;
  uint64_t misaligned_weights = 0;
  uint64_t misaligned_bytes = 0;
  uint64_t argument_alignment = 0;
  uint64_t budget_bytes = 0;
  uint64_t arena_bytes = 0;
  uint64_t cache_bytes = 0;
  uint64_t evictions = 0;
  uint64_t transformations = 0;
  uint64_t cache_hits = 0;
  std::vector<std::string> cache_notices;
  std::string service;
  uint64_t service_hits = 0;
  uint64_t service_bytes = 0;
  std::vector<std::string> service_notices;
  uint64_t live_source_bytes = 0;
  ProcessMemory peak_memory;
  AuditFigures audit;
  std::optional<SleepFigures> sleep;

  double load_seconds() const;
  double compile_seconds() const;
  double weights_seconds() const;
};

std::string ReportAsText(const RunReport& report);
std::string ReportAsJson(const RunReport& report);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_RUN_RUN_REPORT_H_
