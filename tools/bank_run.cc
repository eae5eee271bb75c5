// bank-run: loads models on one bank, generates greedily, and reports what it cost.
//
//   bank-run --model DIR --prompt "Once upon a time" --tokens 100
//   bank-run --model DIR --prompt-ids 1,403,407 --ids --report json --snapshot run.bank
//   bank-run --model A --model B --budget 300000000 --rounds 3 --cache weights.cache
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "npubank/bank/files/cache_file.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/command_line.h"
#include "npubank/tools/model_run.h"
#include "npubank/tools/model_turns.h"

namespace {

// What a flag was given, each time it was given: absl keeps only the last.
std::vector<std::string>& Models() {
  static auto* const models = new std::vector<std::string>;
  return *models;
}
std::vector<std::string>& Prompts() {
  static auto* const prompts = new std::vector<std::string>;
  return *prompts;
}
void Collect(const std::string& value, std::vector<std::string>& values) {
  if (!value.empty()) values.push_back(value);  // absl also calls at the start, with the default
}

}  // namespace

ABSL_FLAG(std::string, model, "",
          "folder with config.json and safetensors, or a .gguf file; several take turns")
    .OnUpdate([] { Collect(absl::GetFlag(FLAGS_model), Models()); });
ABSL_FLAG(std::string, prompt, "",
          "text to continue; needs a tokens.json beside the model; of several, one each round")
    .OnUpdate([] { Collect(absl::GetFlag(FLAGS_prompt), Prompts()); });
ABSL_FLAG(std::string, prompt_ids, "", "token ids to continue, comma-separated");
ABSL_FLAG(int64_t, rounds, 1, "turns of each model");
ABSL_FLAG(uint64_t, budget, 0, "bytes that weights may take on the device; 0: no limit");
ABSL_FLAG(std::string, cache, "", "file that keeps transformed weights for the next run");
ABSL_FLAG(int64_t, tokens, 100, "tokens to generate");
ABSL_FLAG(std::string, weights, "f16", "weights on the device: keep, f32, f16 or bf16");
ABSL_FLAG(int64_t, chunk, 64, "positions the prefill submodel takes at once");
ABSL_FLAG(int64_t, context, 0, "positions in the cache; 0: the model's, at most 1024");
ABSL_FLAG(std::string, attention, "whole", "all heads at once, or head after head: whole, perhead");
ABSL_FLAG(std::string, schedule, "serial", "order that the memory plan allows: serial, parallel");
ABSL_FLAG(std::string, save_blobs, "", "folder to write the compiled submodels to, NAME.npbs each");
ABSL_FLAG(std::string, device, "auto", "auto, software or hardware");
ABSL_FLAG(std::string, memory, "auto", "auto, committed, placed, tiled or imported");
ABSL_FLAG(int, workers, -1, "threads that evaluate weights; 0: inline; -1: one per core");
ABSL_FLAG(bool, ids, false, "print the token ids");
ABSL_FLAG(bool, load_only, false, "load everything, execute nothing");
ABSL_FLAG(std::string, report, "text", "text or json (json alone on standard output)");
ABSL_FLAG(std::string, snapshot, "", "file to write the bank's state to, for bank-inspect");

namespace npubank {
namespace {

// For every --model.
absl::StatusOr<ModelRunOptions> ModelFromFlags() {
  if (Models().empty()) return absl::InvalidArgumentError("--model is needed: a model folder");
  ModelRunOptions options;
  options.model = Models().front();
  const std::string weights = absl::GetFlag(FLAGS_weights);
  const auto format = WeightFormatFromName(weights);
  if (!format)
    return absl::InvalidArgumentError(
        absl::StrCat("--weights ", weights, " is not one of keep, f32, f16, bf16"));
  options.weights = *format;
  const std::string attention = absl::GetFlag(FLAGS_attention);
  const auto form = AttentionFormFromName(attention);
  if (!form)
    return absl::InvalidArgumentError(
        absl::StrCat("--attention ", attention, " is not one of whole, perhead"));
  options.attention = *form;
  const std::string schedule = absl::GetFlag(FLAGS_schedule);
  const auto order = ScheduleFromName(schedule);
  if (!order)
    return absl::InvalidArgumentError(
        absl::StrCat("--schedule ", schedule, " is not one of serial, parallel"));
  options.schedule = *order;
  options.save_blobs = absl::GetFlag(FLAGS_save_blobs);
  options.chunk = absl::GetFlag(FLAGS_chunk);
  options.context = absl::GetFlag(FLAGS_context);
  if (options.chunk < 1 || options.context < 0)
    return absl::InvalidArgumentError("--chunk must be at least 1 and --context not negative");
  return options;
}

absl::StatusOr<BankPlace> PlaceFromFlags(std::shared_ptr<CacheFile> cache) {
  const std::string device = absl::GetFlag(FLAGS_device);
  const auto choice = level_zero::DeviceChoiceFromName(device);
  if (!choice)
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", device, " is not one of auto, software, hardware"));
  const std::string memory = absl::GetFlag(FLAGS_memory);
  const auto strategy = MemoryStrategyFromName(memory);
  if (!strategy)
    return absl::InvalidArgumentError(absl::StrCat(
        "--memory ", memory, " is not one of auto, committed, placed, tiled, imported"));
  int workers = absl::GetFlag(FLAGS_workers);
  if (workers < 0) workers = static_cast<int>(std::thread::hardware_concurrency());
  BankOptions options;
  if (absl::GetFlag(FLAGS_budget) > 0) options.budget_bytes = absl::GetFlag(FLAGS_budget);
  options.cache = std::move(cache);
  return BankPlace::Open(*choice, workers, *strategy, std::move(options));
}

absl::StatusOr<std::vector<int32_t>> PromptFromFlags(const ModelRun& run, int64_t round) {
  const std::string ids = absl::GetFlag(FLAGS_prompt_ids);
  if (ids.empty()) return run.Encode(Prompts().empty() ? "" : Prompts()[round % Prompts().size()]);
  std::vector<int32_t> prompt;
  for (absl::string_view part : absl::StrSplit(ids, ',')) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(part, &id))
      return absl::InvalidArgumentError(absl::StrCat("--prompt-ids: ", part, " is not a number"));
    prompt.push_back(id);
  }
  return prompt;
}

absl::Status WriteSnapshotIfAsked(const Bank& bank) {
  const std::string snapshot = absl::GetFlag(FLAGS_snapshot);
  return snapshot.empty() ? absl::OkStatus() : WriteSnapshot(bank.Snapshot(), snapshot);
}

bool Json() { return absl::GetFlag(FLAGS_report) == "json"; }

// JSON stands alone on standard output.
void Print(absl::string_view text) {
  if (Json()) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

absl::Status RunOne(const ModelRunOptions& options, const BankPlace& place) {
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<ModelRun> run, ModelRun::Load(options, place));
  if (absl::GetFlag(FLAGS_load_only)) {
    NPUBANK_RETURN_IF_ERROR(run->Prepare());
  } else {
    NPUBANK_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, PromptFromFlags(*run, 0));
    NPUBANK_RETURN_IF_ERROR(run->Generate(prompt, absl::GetFlag(FLAGS_tokens), Print));
    Print("\n");
  }
  const RunReport report = run->Report();
  if (absl::GetFlag(FLAGS_ids)) Print(absl::StrCat("ids: ", absl::StrJoin(report.ids, ","), "\n"));
  std::fputs((Json() ? ReportAsJson(report) : "\n" + ReportAsText(report)).c_str(), stdout);
  return WriteSnapshotIfAsked(*place.bank);
}

absl::Status RunInTurns(const ModelRunOptions& common, const BankPlace& place) {
  std::vector<ModelRunOptions> models;
  for (const std::string& model : Models()) models.emplace_back(common).model = model;
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<ModelTurns> turns, ModelTurns::Load(models, place));
  if (!absl::GetFlag(FLAGS_load_only)) {
    const TurnsOptions options = {.rounds = absl::GetFlag(FLAGS_rounds),
                                  .tokens = absl::GetFlag(FLAGS_tokens)};
    NPUBANK_RETURN_IF_ERROR(turns->Take(PromptFromFlags, options, Print));
  }
  TurnsReport report = turns->Report();
  report.budget_bytes = absl::GetFlag(FLAGS_budget);
  for (const TurnReport& turn : report.turns)
    if (absl::GetFlag(FLAGS_ids))
      Print(absl::StrCat("ids of ", turn.model, ": ", absl::StrJoin(turn.ids, ","), "\n"));
  std::fputs((Json() ? TurnsReportAsJson(report) : "\n" + TurnsReportAsText(report)).c_str(),
             stdout);
  return WriteSnapshotIfAsked(*place.bank);
}

std::shared_ptr<CacheFile> CacheFromFlags() {
  const std::string path = absl::GetFlag(FLAGS_cache);
  return path.empty() ? nullptr : CacheFile::Open({.path = path});
}

absl::Status Run() {
  const std::string format = absl::GetFlag(FLAGS_report);
  if (format != "text" && format != "json")
    return absl::InvalidArgumentError(absl::StrCat("--report ", format, " is not text or json"));
  if (absl::GetFlag(FLAGS_rounds) < 1)
    return absl::InvalidArgumentError("--rounds must be at least 1");
  NPUBANK_ASSIGN_OR_RETURN(const ModelRunOptions options, ModelFromFlags());
  const std::shared_ptr<CacheFile> cache = CacheFromFlags();
  NPUBANK_ASSIGN_OR_RETURN(const BankPlace place, PlaceFromFlags(cache));
  const bool in_turns = Models().size() > 1 || absl::GetFlag(FLAGS_rounds) > 1;
  absl::Status status = in_turns ? RunInTurns(options, place) : RunOne(options, place);
  if (cache == nullptr) return status;
  status.Update(cache->Save());
  for (const std::string& problem : cache->Report().problems)
    std::fprintf(stderr, "warning: %s\n", problem.c_str());
  return status;
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  npubank::ParseFlags("Loads a model's submodels on one bank and generates text.", argc, argv);
  return npubank::ExitStatus(npubank::Run());
}
