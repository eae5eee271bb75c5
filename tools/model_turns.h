// ModelTurns: several models on one bank, each generating in its turn; what bank-run does with more
// than one --model.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto turns, ModelTurns::Load(models, place));
//   NPUBANK_RETURN_IF_ERROR(turns->Take(prompt_of, {.rounds = 3, .tokens = 20}, emit));
//   std::cout << TurnsReportAsText(turns->Report());
//
// A model that has had its turn pauses: its weights stay as long as nobody needs their room. So on a
// budget for all of them a switch costs milliseconds, and on a smaller one as much as it takes to
// bring back what had to leave.
// Threads: one at a time. Errors: those of ModelRun, in front of them the model.
#ifndef NPUBANK_TOOLS_MODEL_TURNS_H_
#define NPUBANK_TOOLS_MODEL_TURNS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/tools/bank_place.h"
#include "npubank/tools/model_run.h"
#include "npubank/tools/reports/memory_monitor.h"
#include "npubank/tools/reports/turns_report.h"

namespace npubank {

struct TurnsOptions {
  int64_t rounds = 1;    // turns of each model
  int64_t tokens = 100;  // generated in each turn
};

class ModelTurns {
 public:
  // Loads one after the other; each pauses when it is loaded.
  static absl::StatusOr<std::unique_ptr<ModelTurns>> Load(absl::Span<const ModelRunOptions> models,
                                                          const BankPlace& place);

  // What a model is asked in a round, counted from 0.
  using PromptOf =
      std::function<absl::StatusOr<std::vector<int32_t>>(const ModelRun& model, int64_t round)>;
  using Emit = std::function<void(absl::string_view text)>;
  absl::Status Take(const PromptOf& prompt, const TurnsOptions& options, const Emit& emit);

  TurnsReport Report();

 private:
  struct Player {
    std::string name;
    std::unique_ptr<ModelRun> run;
  };

  ModelTurns() = default;
  absl::Status TakeOne(Player& player, int64_t round, const PromptOf& prompt, int64_t tokens,
                       const Emit& emit);
  void NoteSharing();
  uint64_t BytesSharedByRecipe() const;

  MemoryMonitor monitor_;
  BankPlace place_;
  std::vector<Player> players_;
  Player* current_ = nullptr;  // the one that is not paused
  TurnsReport report_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_MODEL_TURNS_H_
