// ModelTurns: one model or several on one bank, each generating in its turn, and a report of what it
// cost: what bank-run does, as a noun.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto turns, ModelTurns::Load(models, place));
//   NPUBANK_RETURN_IF_ERROR(turns->Take(prompt_of, {.rounds = 3, .tokens = 20}, emit));
//   NPUBANK_RETURN_IF_ERROR(turns->SleepAndWake());
//   std::cout << ReportAsText(turns->Report());
//
// Of several models the one that has had its turn pauses: its weights stay as long as nobody needs
// their room. So on a budget for all of them a switch costs milliseconds, and on a smaller one as
// much as it takes to bring back what had to leave.
// Threads: one at a time. Errors: those of ModelRun, in front of them the model where there are
// several.
#ifndef NPUBANK_TOOLS_RUN_MODEL_TURNS_H_
#define NPUBANK_TOOLS_RUN_MODEL_TURNS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/books/audit.h"
#include "npubank/tools/run/bank_place.h"
#include "npubank/tools/run/memory_monitor.h"
#include "npubank/tools/run/model_run.h"
#include "npubank/tools/run/run_report.h"

namespace npubank {

struct TurnsOptions {
  int64_t rounds = 1;    // turns of each model
  int64_t tokens = 100;  // generated in each turn
};

class ModelTurns {
 public:
  // Loads one after the other; each of several pauses when it is loaded.
  static absl::StatusOr<std::unique_ptr<ModelTurns>> Load(absl::Span<const ModelRunOptions> models,
                                                          const BankPlace& place);

  // What a model is asked in a round, counted from 0.
  using PromptOf =
      std::function<absl::StatusOr<std::vector<int32_t>>(const ModelRun& model, int64_t round)>;
  using Emit = std::function<void(absl::string_view text)>;
  absl::Status Take(const PromptOf& prompt, const TurnsOptions& options, const Emit& emit);
  // No turns: allocates what a single model's run would need.
  absl::Status Prepare();
  // Puts all models to sleep, then wakes each: by saying again what it said last, if it has spoken.
  // The report tells what went and whether they said the same.
  absl::Status SleepAndWake();

  RunReport Report();

 private:
  struct Player {
    std::unique_ptr<ModelRun> run;
    std::vector<int32_t> prompt;  // of its last turn
  };

  ModelTurns() = default;
  // Whose error it is, where that is not plain.
  absl::Status Of(const Player& player, const absl::Status& status) const;
  absl::Status TakeOne(Player& player, int64_t round, int64_t tokens, const Emit& emit);
  absl::Status PutToSleep(SleepFigures& figures);
  absl::Status WakeOne(Player& player, SleepFigures& figures);
  void NoteSharing();
  uint64_t BytesSharedByRecipe() const;
  uint64_t DeviceBytes() const;
  AuditFigures Audit() const;

  MemoryMonitor monitor_;
  BankPlace place_;
  std::vector<Player> players_;
  Player* current_ = nullptr;  // the one that is not paused
  RunReport report_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_RUN_MODEL_TURNS_H_
