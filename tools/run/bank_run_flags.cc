#include "npubank/tools/run/bank_run_flags.h"

#include <cstdio>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/tools/terminal/command_line.h"
#include "npubank/tools/terminal/interrupt.h"

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
std::vector<std::string>& Manifests() {
  static auto* const manifests = new std::vector<std::string>;
  return *manifests;
}
std::vector<std::string>& Inputs() {
  static auto* const inputs = new std::vector<std::string>;
  return *inputs;
}
std::vector<std::string>& Outputs() {
  static auto* const outputs = new std::vector<std::string>;
  return *outputs;
}
void Collect(const std::string& value, std::vector<std::string>& values) {
  if (!value.empty()) values.push_back(value);  // absl also calls at the start, with the default
}

}  // namespace

ABSL_FLAG(
    std::string, model, "",
    "folder with config.json and safetensors, a .gguf file, or the name of a repository in Hugging "
    "Face's cache; several take turns")
    .OnUpdate([] { Collect(absl::GetFlag(FLAGS_model), Models()); });
ABSL_FLAG(std::string, manifest, "",
          "another compiler's submodel, instead of a model to compile; several run one after the "
          "other; --model is where their weights are, if they do not say")
    .OnUpdate([] { Collect(absl::GetFlag(FLAGS_manifest), Manifests()); });
ABSL_FLAG(std::string, input, "", "the bytes of a manifest's input or state: NAME=FILE")
    .OnUpdate([] { Collect(absl::GetFlag(FLAGS_input), Inputs()); });
ABSL_FLAG(std::string, output, "", "where a manifest's output or state is written to: NAME=FILE")
    .OnUpdate([] { Collect(absl::GetFlag(FLAGS_output), Outputs()); });
ABSL_FLAG(std::string, prompt, "",
          "text to continue; needs the model's tokenizer; of several, one each round")
    .OnUpdate([] { Collect(absl::GetFlag(FLAGS_prompt), Prompts()); });
ABSL_FLAG(
    std::string, prompt_file, "",
    "file with the text to continue; -: standard input; a newline at its end is not part of it");
ABSL_FLAG(std::string, prompt_ids, "", "token ids to continue, comma-separated, instead of a text");
ABSL_FLAG(int64_t, rounds, 1, "turns of each model");
ABSL_FLAG(int64_t, tokens, 100, "tokens to generate in each turn");
ABSL_FLAG(double, temperature, 0, "0: the likeliest token each time; more: the more, the freer");
ABSL_FLAG(double, top_p, 1, "draw among the likeliest tokens that have this probability together");
ABSL_FLAG(uint64_t, seed, 0, "of the drawing: the same seed says the same");
ABSL_FLAG(bool, load_only, false, "load everything, execute nothing");
ABSL_FLAG(bool, sleep, false,
          "then put every model to sleep, say what went, and wake it by generating once more: it "
          "must say the same");
ABSL_FLAG(std::string, weights, "auto",
          "weights on the device: auto, keep, packed, f32, f16 or bf16");
ABSL_FLAG(int64_t, chunk, 64, "positions the prefill submodel takes at once");
ABSL_FLAG(int64_t, context, 0, "positions in the key/value cache; 0: the model's, at most 1024");
ABSL_FLAG(std::string, attention, "whole", "all heads at once, or head after head: whole, perhead");
ABSL_FLAG(std::string, schedule, "serial", "order that the memory plan allows: serial, parallel");
ABSL_FLAG(std::string, save_blobs, "",
          "folder to write the compiled submodels to, NAME.npbs each, for bank-inspect plan");
ABSL_FLAG(std::string, device, "auto", "auto, software or hardware");
ABSL_FLAG(std::string, memory, "auto", "auto, committed, placed, tiled or imported");
ABSL_FLAG(
    uint64_t, argument_alignment, 0,
    "what the device wants addresses to be multiples of: a power of two up to 4096; 0: what it "
    "says, or 64 where it cannot be asked");
ABSL_FLAG(int, workers, -1, "threads that evaluate weights; 0: inline; -1: one per core");
ABSL_FLAG(uint64_t, budget, 0, "bytes that weights may take on the device; 0: no limit");
ABSL_FLAG(std::string, cache, "", "file that keeps transformed weights for the next run");
ABSL_FLAG(uint64_t, cache_limit, 0,
          "bytes that this file may have; what was used longest ago goes first; 0: no limit");
ABSL_FLAG(std::string, service, "auto",
          "the bank of the machine, npubankd: auto (where there is one), off, or the path of its socket");
ABSL_FLAG(bool, ids, false, "print the token ids");
ABSL_FLAG(std::string, report, "text", "text or json (json alone on standard output)");
ABSL_FLAG(std::string, snapshot, "", "file to write the bank's state to, for bank-inspect");

namespace npubank {
namespace {

ProgramHelp Help() {
  return {.name = "bank-run",
          .purpose = "loads models on one bank, generates text and reports what it cost",
          .examples = {"bank-run --model DIR --prompt 'Once upon a time' --tokens 100",
                       "bank-run --model DIR --prompt-ids 1,403,407 --ids --report json --snapshot "
                       "run.bank",
                       "bank-run --model A --model B --budget 300000000 --rounds 3 --cache "
                       "weights.cache",
                       "bank-run --model DIR --device hardware --load-only --sleep",
                       "bank-run --manifest layers.json --input x=x.bin --output y=y.bin"},
          .groups = {{"What to run",
                      {{"model", "PATH"},
                       {"prompt", "TEXT"},
                       {"prompt_file", "FILE"},
                       {"prompt_ids", "IDS"},
                       {"tokens", "N"},
                       {"rounds", "N"},
                       {"temperature", "X"},
                       {"top_p", "X"},
                       {"seed", "N"},
                       {"load_only", ""},
                       {"sleep", ""}}},
                     {"Functions of another compiler",
                      {{"manifest", "FILE"}, {"input", "NAME=FILE"}, {"output", "NAME=FILE"}}},
                     {"How to compile it",
                      {{"weights", "TYPE"},
                       {"chunk", "N"},
                       {"context", "N"},
                       {"attention", "FORM"},
                       {"schedule", "ORDER"},
                       {"save_blobs", "DIR"}}},
                     {"Where to load it",
                      {{"device", "KIND"},
                       {"memory", "STRATEGY"},
                       {"argument_alignment", "BYTES"},
                       {"workers", "N"},
                       {"budget", "BYTES"},
                       {"cache", "FILE"},
                       {"cache_limit", "BYTES"},
                       {"service", "WHERE"}}},
                     {"What to tell", {{"ids", ""}, {"report", "FORM"}, {"snapshot", "FILE"}}}}};
}

absl::Status NotOneOf(absl::string_view flag, absl::string_view value, absl::string_view known) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " '", value, "' is not one of ", known));
}

absl::Status AtLeast(absl::string_view flag, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " '", value, "' must be at least ", least));
}

absl::StatusOr<SamplerOptions> SamplerFromFlags() {
  const SamplerOptions sampler = {absl::GetFlag(FLAGS_temperature), absl::GetFlag(FLAGS_top_p),
                                  absl::GetFlag(FLAGS_seed)};
  if (!(sampler.temperature >= 0 && sampler.temperature <= 100))
    return absl::InvalidArgumentError(
        absl::StrCat("--temperature '", sampler.temperature, "' must be from 0 to 100"));
  if (!(sampler.top_p > 0 && sampler.top_p <= 1))
    return absl::InvalidArgumentError(
        absl::StrCat("--top-p '", sampler.top_p, "' must be over 0, and 1 at most"));
  return sampler;
}

// What holds for every --model.
absl::StatusOr<ModelRunOptions> ModelFromFlags() {
  ModelRunOptions options;
  const std::string weights = absl::GetFlag(FLAGS_weights);
  const auto format = WeightFormatFromName(weights);
  if (!format) return NotOneOf("--weights", weights, "auto, keep, packed, f32, f16, bf16");
  options.weights = *format;
  const std::string attention = absl::GetFlag(FLAGS_attention);
  const auto form = AttentionFormFromName(attention);
  if (!form) return NotOneOf("--attention", attention, "whole, perhead");
  options.attention = *form;
  const std::string schedule = absl::GetFlag(FLAGS_schedule);
  const auto order = ScheduleFromName(schedule);
  if (!order) return NotOneOf("--schedule", schedule, "serial, parallel");
  options.schedule = *order;
  NPUBANK_ASSIGN_OR_RETURN(options.sampler, SamplerFromFlags());
  options.stopped = Interrupt::Came;
  options.save_blobs = absl::GetFlag(FLAGS_save_blobs);
  options.chunk = absl::GetFlag(FLAGS_chunk);
  NPUBANK_RETURN_IF_ERROR(AtLeast("--chunk", options.chunk, 1));
  options.context = absl::GetFlag(FLAGS_context);
  NPUBANK_RETURN_IF_ERROR(AtLeast("--context", options.context, 0));
  return options;
}

absl::Status PlaceFromFlags(BankRunFlags& flags) {
  const std::string device = absl::GetFlag(FLAGS_device);
  const auto choice = level_zero::DeviceChoiceFromName(device);
  if (!choice) return NotOneOf("--device", device, "auto, software, hardware");
  flags.device = *choice;
  const std::string memory = absl::GetFlag(FLAGS_memory);
  const auto strategy = MemoryStrategyFromName(memory);
  if (!strategy) return NotOneOf("--memory", memory, "auto, committed, placed, tiled, imported");
  flags.memory.strategy = *strategy;
  const uint64_t alignment = absl::GetFlag(FLAGS_argument_alignment);
  if (alignment != 0) flags.memory.argument_alignment = alignment;
  flags.workers = absl::GetFlag(FLAGS_workers);
  NPUBANK_RETURN_IF_ERROR(AtLeast("--workers", flags.workers, -1));
  if (flags.workers < 0) flags.workers = static_cast<int>(std::thread::hardware_concurrency());
  flags.budget = absl::GetFlag(FLAGS_budget);
  flags.cache = absl::GetFlag(FLAGS_cache);
  flags.cache_limit = absl::GetFlag(FLAGS_cache_limit);
  flags.service = absl::GetFlag(FLAGS_service);
  if (flags.service.empty()) return NotOneOf("--service", "", "auto, off, or a path");
  if (flags.cache_limit > 0 && flags.cache.empty())
    return absl::InvalidArgumentError("--cache-limit is of a --cache: give one");
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadPrompt(const std::string& file) {
  constexpr size_t kMaxPromptBytes = 16 << 20;
  std::string text;
  if (file == "-") {
    char buffer[4096];
    for (size_t count; (count = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) {
      text.append(buffer, count);
      if (text.size() > kMaxPromptBytes)
        return absl::InvalidArgumentError(
            absl::StrCat("--prompt-file -: more than ", kMaxPromptBytes, " bytes"));
    }
    if (std::ferror(stdin) != 0)
      return absl::DataLossError("--prompt-file -: cannot read standard input");
  } else {
    NPUBANK_ASSIGN_OR_RETURN(text, ReadTextFile(file, kMaxPromptBytes));
  }
  absl::string_view prompt = text;
  if (absl::ConsumeSuffix(&prompt, "\n")) absl::ConsumeSuffix(&prompt, "\r");
  return std::string(prompt);
}

absl::Status PromptFromFlags(BankRunFlags& flags) {
  flags.prompts = Prompts();
  const std::string file = absl::GetFlag(FLAGS_prompt_file);
  if (!file.empty()) {
    if (!flags.prompts.empty())
      return absl::InvalidArgumentError("--prompt and --prompt-file: give one of the two");
    NPUBANK_ASSIGN_OR_RETURN(std::string text, ReadPrompt(file));
    flags.prompts = {std::move(text)};
  }
  const std::string ids = absl::GetFlag(FLAGS_prompt_ids);
  if (ids.empty()) return absl::OkStatus();
  if (!flags.prompts.empty())
    return absl::InvalidArgumentError("--prompt and --prompt-ids: give one of the two");
  for (absl::string_view part : absl::StrSplit(ids, ',')) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(part, &id))
      return absl::InvalidArgumentError(absl::StrCat("--prompt-ids: '", part, "' is not a number"));
    flags.prompt_ids.push_back(id);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::string>> FilesByName(
    absl::string_view flag, const std::vector<std::string>& values) {
  std::map<std::string, std::string> files;
  for (const std::string& value : values) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(value, absl::MaxSplits('=', 1));
    if (parts.first.empty() || parts.second.empty())
      return absl::InvalidArgumentError(absl::StrCat(flag, " '", value, "' is not NAME=FILE"));
    if (!files.emplace(parts).second)
      return absl::InvalidArgumentError(absl::StrCat(flag, " ", parts.first, " is given twice"));
  }
  return files;
}

// What is for models that are compiled here, and what for the others.
absl::Status ManifestsFromFlags(BankRunFlags& flags) {
  if (Manifests().empty()) return RefuseFlags({"input", "output"}, "is for a --manifest");
  NPUBANK_RETURN_IF_ERROR(
      RefuseFlags({"prompt", "prompt_ids", "tokens", "sleep", "weights", "chunk", "context",
                   "attention", "schedule", "save_blobs", "ids", "report"},
                  "is for models that are compiled here, not for a --manifest"));
  if (Models().size() > 1)
    return absl::InvalidArgumentError("--model: of manifests one has the weights");
  flags.manifests.manifests = Manifests();
  if (!Models().empty()) flags.manifests.model = Models().front();
  NPUBANK_ASSIGN_OR_RETURN(flags.manifests.inputs, FilesByName("--input", Inputs()));
  NPUBANK_ASSIGN_OR_RETURN(flags.manifests.outputs, FilesByName("--output", Outputs()));
  flags.manifests.runs = flags.turns.rounds;
  flags.manifests.load_only = absl::GetFlag(FLAGS_load_only);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BankRunFlags> BankRunFlags::Parse(int argc, char** argv) {
  NPUBANK_RETURN_IF_ERROR(RefuseArguments(ParseFlags(Help(), argc, argv)));
  BankRunFlags flags;
  const std::string report = absl::GetFlag(FLAGS_report);
  if (report != "text" && report != "json") return NotOneOf("--report", report, "text, json");
  flags.json = report == "json";
  flags.turns = {.rounds = absl::GetFlag(FLAGS_rounds), .tokens = absl::GetFlag(FLAGS_tokens)};
  NPUBANK_RETURN_IF_ERROR(AtLeast("--rounds", flags.turns.rounds, 1));
  NPUBANK_RETURN_IF_ERROR(AtLeast("--tokens", flags.turns.tokens, 0));
  NPUBANK_RETURN_IF_ERROR(ManifestsFromFlags(flags));
  if (Models().empty() && Manifests().empty())
    return absl::InvalidArgumentError("--model is needed: a model folder");
  NPUBANK_ASSIGN_OR_RETURN(const ModelRunOptions common, ModelFromFlags());
  if (Manifests().empty())
    for (const std::string& model : Models()) flags.models.emplace_back(common).model = model;
  NPUBANK_RETURN_IF_ERROR(PlaceFromFlags(flags));
  NPUBANK_RETURN_IF_ERROR(PromptFromFlags(flags));
  flags.snapshot = absl::GetFlag(FLAGS_snapshot);
  flags.load_only = absl::GetFlag(FLAGS_load_only);
  flags.sleep = absl::GetFlag(FLAGS_sleep);
  flags.ids = absl::GetFlag(FLAGS_ids);
  return flags;
}

}  // namespace npubank
