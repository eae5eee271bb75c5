#include "npubank/tools/run/model_turns.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/bank/books/audit.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tools/terminal/stopwatch.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<ModelTurns>> ModelTurns::Load(
    absl::Span<const ModelRunOptions> models, const BankPlace& place) {
  std::unique_ptr<ModelTurns> turns(new ModelTurns);
  turns->place_ = place;
  std::set<std::string> taken;
  const bool several = models.size() > 1;
  for (const ModelRunOptions& model : models) {
    ModelRunOptions options = model;
    const std::string name = NameFor(model.model, taken);
    taken.insert(name);
    if (several) options.name = name;
    absl::StatusOr<std::unique_ptr<ModelRun>> run = ModelRun::Load(options, place);
    if (!run.ok())
      return several ? Annotate(run.status(), absl::StrCat("model '", name, "'")) : run.status();
    if (several) (*run)->Pause();
    turns->NoteSharing();
    turns->report_.models.push_back((*run)->model());
    turns->report_.models.back().name = name;
    turns->players_.push_back({*std::move(run), {}});
  }
  if (!several) turns->current_ = &turns->players_[0];
  return turns;
}

absl::Status ModelTurns::Of(const Player& player, const absl::Status& status) const {
  if (status.ok() || players_.size() == 1) return status;
  return Annotate(status,
                  absl::StrCat("model '", report_.models[&player - players_.data()].name, "'"));
}

absl::Status ModelTurns::Take(const PromptOf& prompt, const TurnsOptions& options,
                              const Emit& emit) {
  const bool several = players_.size() > 1 || options.rounds > 1;
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (Player& player : players_) {
      if (player.run->stopped()) return absl::OkStatus();
      absl::StatusOr<std::vector<int32_t>> ids = prompt(*player.run, round);
      if (!ids.ok()) return Of(player, ids.status());
      player.prompt = *std::move(ids);
      if (several) emit(absl::StrCat("[", report_.models[&player - players_.data()].name, "] "));
      NPUBANK_RETURN_IF_ERROR(Of(player, TakeOne(player, round, options.tokens, emit)));
      emit("\n");
    }
  }
  return absl::OkStatus();
}

absl::Status ModelTurns::TakeOne(Player& player, int64_t round, int64_t tokens, const Emit& emit) {
  const BankTotals before = place_.bank->Totals();
  const Stopwatch stopwatch;
  if (current_ != nullptr && current_ != &player) current_->run->Pause();
  current_ = &player;
  NPUBANK_ASSIGN_OR_RETURN(const uint64_t brought_back, player.run->Resume());
  const double switch_seconds = stopwatch.Seconds();
  const BankTotals after = place_.bank->Totals();
  NoteSharing();
  NPUBANK_RETURN_IF_ERROR(player.run->Generate(player.prompt, tokens, emit));
  TurnReport turn = player.run->speech();
  turn.round = round;
  turn.model = report_.models[&player - players_.data()].name;
  turn.switch_seconds = switch_seconds;
  turn.bytes_brought_back = brought_back;
  turn.evictions = after.evictions - before.evictions;
  turn.transformations = after.transformations - before.transformations;
  turn.cache_hits = after.cache_hits - before.cache_hits;
  report_.turns.push_back(std::move(turn));
  return absl::OkStatus();
}

absl::Status ModelTurns::Prepare() {
  return players_.size() == 1 ? players_[0].run->Prepare() : absl::OkStatus();
}

absl::Status ModelTurns::PutToSleep(SleepFigures& figures) {
  const uint64_t imported = place_.memory->Usage().imported_bytes;
  for (Player& player : players_) {
    const absl::StatusOr<SleepReport> slept = player.run->Sleep();
    if (!slept.ok()) return Of(player, slept.status());
    figures.bytes_given_back += slept->bytes_given_back;
    figures.bytes_leased += slept->bytes_leased;
    figures.bytes_without_way_back += slept->bytes_without_way_back;
  }
  current_ = nullptr;
  figures.imported_bytes_given_back = imported - place_.memory->Usage().imported_bytes;
  figures.weight_bytes_left = place_.bank->Totals().device_bytes;
  figures.device_bytes = DeviceBytes();
  return absl::OkStatus();
}

absl::Status ModelTurns::WakeOne(Player& player, SleepFigures& figures) {
  const Stopwatch stopwatch;
  if (current_ != nullptr) current_->run->Pause();
  current_ = &player;
  NPUBANK_ASSIGN_OR_RETURN(const uint64_t brought_back, player.run->Resume());
  figures.wake_seconds += stopwatch.Seconds();
  figures.bytes_brought_back += brought_back;
  if (player.prompt.empty()) return absl::OkStatus();
  const TurnReport before = player.run->speech();
  const auto silent = [](absl::string_view) {};
  NPUBANK_RETURN_IF_ERROR(
      player.run->Generate(player.prompt, static_cast<int64_t>(before.generated_tokens), silent));
  figures.same_ids = figures.same_ids && player.run->speech().ids == before.ids;
  return absl::OkStatus();
}

absl::Status ModelTurns::SleepAndWake() {
  SleepFigures figures;
  NPUBANK_RETURN_IF_ERROR(PutToSleep(figures));
  for (Player& player : players_) NPUBANK_RETURN_IF_ERROR(Of(player, WakeOne(player, figures)));
  report_.sleep = figures;
  return absl::OkStatus();
}

void ModelTurns::NoteSharing() {
  report_.shared_by_content_bytes =
      std::max(report_.shared_by_content_bytes, place_.bank->Totals().content_bytes_saved);
}

uint64_t ModelTurns::BytesSharedByRecipe() const {
  std::map<uint64_t, uint64_t> unique;
  uint64_t apart = 0;
  for (const Player& player : players_) {
    apart += player.run->model().weight_bytes;
    for (const Submodel& submodel : player.run->session().submodels())
      for (const Submodel::Weight& weight : submodel.weights())
        unique[weight.uid.value] = weight.bytes;
  }
  for (const auto& [uid, size] : unique) apart -= size;
  return apart;
}

uint64_t ModelTurns::DeviceBytes() const {
  return place_.device->AllocatedBytes().value_or(place_.memory->Usage().held_bytes);
}

AuditFigures ModelTurns::Audit() const {
  AuditFigures figures;
  for (const Player& player : players_) figures.other_bytes += player.run->session().device_bytes();
  const AuditReport audit = place_.bank->Audit(figures.other_bytes);
  figures.weight_bytes = audit.device_bytes_booked;
  figures.counted_bytes = audit.device_bytes_counted;
  figures.imported_bytes = audit.imported_bytes_counted;
  figures.upstream_bytes = audit.imported_bytes_upstream;
  const absl::StatusOr<uint64_t> driver = place_.memory->DriverBytes();
  if (driver.ok()) figures.driver_bytes = *driver;
  figures.discrepancies = audit.discrepancies;
  return figures;
}

RunReport ModelTurns::Report() {
  RunReport report = report_;
  const BankTotals totals = place_.bank->Totals();
  report.device = place_.device->name();
  report.memory_strategy = std::string(MemoryStrategyName(place_.memory->strategy()));
  report.memory_notices = place_.memory->notices();
  report.unique_weights = totals.unique_tensors;
  report.weight_bytes = totals.unique_bytes;
  report.shared_bytes_saved = totals.shared_bytes_saved;
  report.shared_by_recipe_bytes = BytesSharedByRecipe();
  report.device_weight_bytes = totals.device_bytes;
  report.imported_bytes = place_.memory->Usage().imported_bytes;
  report.misaligned_weights = totals.misaligned;
  report.misaligned_bytes = totals.misaligned_bytes;
  report.argument_alignment = place_.memory->traits().argument_alignment;
  report.evictions = totals.evictions;
  report.transformations = totals.transformations;
  report.cache_hits = totals.cache_hits;
  report.service_hits = totals.service_hits;
  report.service_bytes = totals.service_bytes;
  report.device_bytes = DeviceBytes();
  // The driver's count now has imports in it, its peak has not.
  report.device_peak_bytes = std::max(place_.PeakBytes(), report.device_bytes);
  report.expected_peak_bytes = totals.device_bytes;
  for (const Player& player : players_) {
    const Session& session = player.run->session();
    report.expected_peak_bytes += session.device_bytes();
    report.arena_bytes = std::max(report.arena_bytes, session.arena_bytes());
    report.cache_bytes += session.cache_bytes();
  }
  report.audit = Audit();
  report.live_source_bytes = LiveSourceBytes();
  report.peak_memory = monitor_.Peak();
  return report;
}

}  // namespace npubank
