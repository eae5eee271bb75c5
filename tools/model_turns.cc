#include "npubank/tools/model_turns.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tools/stopwatch.h"

namespace npubank {
namespace {

// The folder's own name, with a number where another model has it too.
std::string NameFor(const std::string& path, const std::set<std::string>& taken) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::weakly_canonical(path, error);
  const std::string base = error ? path : folder.filename().string();
  std::string name = base;
  for (int number = 2; taken.count(name) != 0; ++number) name = absl::StrCat(base, "#", number);
  return name;
}

// A model's weights, each once: its submodels share them.
std::map<uint64_t, uint64_t> BytesByUid(const Session& session) {
  std::map<uint64_t, uint64_t> bytes;
  for (const Submodel& submodel : session.submodels())
    for (const Submodel::Weight& weight : submodel.weights())
      bytes[weight.uid.value] = weight.bytes;
  return bytes;
}

uint64_t Sum(const std::map<uint64_t, uint64_t>& bytes) {
  uint64_t sum = 0;
  for (const auto& [uid, size] : bytes) sum += size;
  return sum;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelTurns>> ModelTurns::Load(
    absl::Span<const ModelRunOptions> models, const BankPlace& place) {
  std::unique_ptr<ModelTurns> turns(new ModelTurns);
  turns->place_ = place;
  std::set<std::string> taken;
  for (const ModelRunOptions& model : models) {
    ModelRunOptions options = model;
    options.name = NameFor(model.model, taken);
    taken.insert(options.name);
    absl::StatusOr<std::unique_ptr<ModelRun>> run = ModelRun::Load(options, place);
    if (!run.ok()) return Annotate(run.status(), absl::StrCat("model ", options.name));
    (*run)->Pause();
    turns->NoteSharing();
    turns->report_.models.push_back({.name = options.name,
                                     .path = model.model,
                                     .load_seconds = (*run)->Report().load_seconds,
                                     .weight_bytes = Sum(BytesByUid((*run)->session())),
                                     .submodels = (*run)->DescribeSubmodels()});
    turns->players_.push_back({options.name, *std::move(run)});
  }
  return turns;
}

absl::Status ModelTurns::Take(const PromptOf& prompt, const TurnsOptions& options,
                              const Emit& emit) {
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (Player& player : players_) {
      emit(absl::StrCat("[", player.name, "] "));
      const absl::Status status = TakeOne(player, round, prompt, options.tokens, emit);
      if (!status.ok()) return Annotate(status, absl::StrCat("model ", player.name));
      emit("\n");
    }
  }
  return absl::OkStatus();
}

absl::Status ModelTurns::TakeOne(Player& player, int64_t round, const PromptOf& prompt,
                                 int64_t tokens, const Emit& emit) {
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, prompt(*player.run, round));
  const BankTotals before = place_.bank->Totals();
  TurnReport turn;
  Stopwatch stopwatch;
  if (current_ != nullptr && current_ != &player) current_->run->Pause();
  current_ = &player;
  NPUBANK_ASSIGN_OR_RETURN(turn.bytes_brought_back, player.run->Resume());
  turn.switch_seconds = stopwatch.Seconds();
  const BankTotals after = place_.bank->Totals();
  NoteSharing();
  NPUBANK_RETURN_IF_ERROR(player.run->Generate(ids, tokens, emit));
  RunReport run = player.run->Report();
  turn.round = round;
  turn.model = player.name;
  turn.evictions = after.evictions - before.evictions;
  turn.transformations = after.transformations - before.transformations;
  turn.cache_hits = after.cache_hits - before.cache_hits;
  turn.first_token_seconds = run.first_token_seconds;
  turn.prompt_tokens = run.prompt_tokens;
  turn.generated_tokens = run.generated_tokens;
  turn.generated_tokens_per_second = run.generated_tokens_per_second;
  turn.ids = std::move(run.ids);
  turn.text = std::move(run.text);
  report_.turns.push_back(std::move(turn));
  return absl::OkStatus();
}

void ModelTurns::NoteSharing() {
  report_.shared_by_content_bytes =
      std::max(report_.shared_by_content_bytes, place_.bank->Totals().content_bytes_saved);
}

uint64_t ModelTurns::BytesSharedByRecipe() const {
  std::map<uint64_t, uint64_t> all;
  uint64_t apart = 0;
  for (const Player& player : players_) {
    const std::map<uint64_t, uint64_t> own = BytesByUid(player.run->session());
    apart += Sum(own);
    all.insert(own.begin(), own.end());
  }
  return apart - Sum(all);
}

TurnsReport ModelTurns::Report() {
  TurnsReport report = report_;
  const BankTotals totals = place_.bank->Totals();
  const DeviceUsage usage = place_.memory->Usage();
  report.device = place_.device->name();
  report.memory_strategy = std::string(MemoryStrategyName(place_.memory->strategy()));
  report.memory_notices = place_.memory->notices();
  report.unique_weights = totals.unique_tensors;
  report.weight_bytes = totals.unique_bytes;
  report.shared_by_recipe_bytes = BytesSharedByRecipe();
  report.evictions = totals.evictions;
  report.transformations = totals.transformations;
  report.cache_hits = totals.cache_hits;
  report.device_bytes = place_.device->AllocatedBytes().value_or(usage.held_bytes);
  report.device_peak_bytes = place_.PeakBytes();
  report.live_source_bytes = LiveSourceBytes();
  report.peak_memory = monitor_.Peak();
  return report;
}

}  // namespace npubank
