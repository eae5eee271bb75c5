// bank-run: loads a model's submodels on one bank, generates greedily, and reports what it cost.
//
//   bank-run --model DIR --prompt "Once upon a time" --tokens 100
//   bank-run --model DIR --prompt-ids 1,403,407 --ids --report json --snapshot run.bank
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lazy_tensor/status_macros.h"
#include "tools/command_line.h"
#include "tools/model_run.h"

ABSL_FLAG(std::string, model, "", "folder with config.json and safetensors, or a .gguf file");
ABSL_FLAG(std::string, prompt, "", "text to continue; needs a tokens.json beside the model");
ABSL_FLAG(std::string, prompt_ids, "", "token ids to continue, comma-separated");
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

absl::StatusOr<ModelRunOptions> ModelFromFlags() {
  ModelRunOptions options;
  options.model = absl::GetFlag(FLAGS_model);
  if (options.model.empty()) return absl::InvalidArgumentError("--model is needed: a model folder");
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

absl::StatusOr<BankPlace> PlaceFromFlags() {
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
  return BankPlace::Open(*choice, workers, *strategy);
}

absl::StatusOr<std::vector<int32_t>> PromptFromFlags(const ModelRun& run) {
  const std::string ids = absl::GetFlag(FLAGS_prompt_ids);
  if (ids.empty()) return run.Encode(absl::GetFlag(FLAGS_prompt));
  std::vector<int32_t> prompt;
  for (absl::string_view part : absl::StrSplit(ids, ',')) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(part, &id))
      return absl::InvalidArgumentError(absl::StrCat("--prompt-ids: ", part, " is not a number"));
    prompt.push_back(id);
  }
  return prompt;
}

absl::Status Run() {
  const std::string format = absl::GetFlag(FLAGS_report);
  if (format != "text" && format != "json")
    return absl::InvalidArgumentError(absl::StrCat("--report ", format, " is not text or json"));
  const bool json = format == "json";
  NPUBANK_ASSIGN_OR_RETURN(ModelRunOptions options, ModelFromFlags());
  NPUBANK_ASSIGN_OR_RETURN(BankPlace place, PlaceFromFlags());
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<ModelRun> run, ModelRun::Load(options, place));
  if (absl::GetFlag(FLAGS_load_only)) {
    NPUBANK_RETURN_IF_ERROR(run->Prepare());
  } else {
    NPUBANK_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, PromptFromFlags(*run));
    const auto print = [&](absl::string_view text) {
      if (json) return;
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    };
    NPUBANK_RETURN_IF_ERROR(run->Generate(prompt, absl::GetFlag(FLAGS_tokens), print));
    print("\n");
  }
  const RunReport report = run->Report();
  if (!json && absl::GetFlag(FLAGS_ids))
    std::printf("ids: %s\n", absl::StrJoin(report.ids, ",").c_str());
  std::fputs((json ? ReportAsJson(report) : "\n" + ReportAsText(report)).c_str(), stdout);
  const std::string snapshot = absl::GetFlag(FLAGS_snapshot);
  if (snapshot.empty()) return absl::OkStatus();
  return WriteSnapshot(place.bank->Snapshot(), snapshot);
}

}  // namespace
}  // namespace npubank

int main(int argc, char** argv) {
  npubank::ParseFlags("Loads a model's submodels on one bank and generates text.", argc, argv);
  return npubank::ExitStatus(npubank::Run());
}
