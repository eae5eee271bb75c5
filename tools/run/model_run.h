// ModelRun: one model loaded on a bank and made to speak.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<ModelRun> run, ModelRun::Load(options, place));
//   NPUBANK_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, run->Encode("Once upon a time"));
//   NPUBANK_RETURN_IF_ERROR(run->Generate(prompt, 100, [](absl::string_view text) { ... }));
//   run->speech().ids;
//
// Threads: one at a time. Errors name the file, tensor or option to mend.
#ifndef NPUBANK_TOOLS_RUN_MODEL_RUN_H_
#define NPUBANK_TOOLS_RUN_MODEL_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/runtime/session.h"
#include "npubank/tools/run/bank_place.h"
#include "npubank/tools/run/run_report.h"
#include "npubank/tools/run/sampler.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {

struct ModelRunOptions {
  std::string
      model;  // a folder with config.json and safetensors, a .gguf file, or see model_place.h
  std::string name;  // in front of the owners' names; empty: only one model is on the bank
  WeightFormat weights = WeightFormat::kAuto;
  int64_t chunk = 64;   // positions the prefill submodel takes at once
  int64_t context = 0;  // positions in the cache; 0: the model's own, at most 1024
  AttentionForm attention = AttentionForm::kWhole;
  Schedule schedule = Schedule::kSerial;
  SamplerOptions sampler;                                // each text begins with its seed
  std::function<bool()> stopped = [] { return false; };  // asked before each token
  std::string save_blobs;  // a folder for the compiled submodels, NAME.npbs each; empty: not kept
};

class ModelRun {
 public:
  static absl::StatusOr<std::unique_ptr<ModelRun>> Load(const ModelRunOptions& options,
                                                        const BankPlace& place);

  // BOS and the prompt's tokens; FailedPrecondition when the model has no tokenizer that is known.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view prompt) const;
  // Feeds `prompt`, then generates until `tokens` are made, the model ends, the context is full or it is
  // stopped. `emit` gets the text as it comes, in whole characters; nothing where no tokenizer is known.
  absl::Status Generate(const std::vector<int32_t>& prompt, int64_t tokens,
                        const std::function<void(absl::string_view)>& emit);
  // Allocates what running needs, without running.
  absl::Status Prepare() { return session_->Prepare(); }
  bool stopped() const { return options_.stopped(); }
  // It is another model's turn: see Session::Pause.
  void Pause() { session_->Pause(); }
  absl::StatusOr<SleepReport> Sleep() { return session_->Sleep(); }
  // Ready to run again; returns the bytes of the weights that had to come back.
  absl::StatusOr<uint64_t> Resume();

  // The model as it was loaded; its name and path are those of the options.
  const ModelReport& model() const { return model_; }
  // What the last Generate said and measured.
  const TurnReport& speech() const { return speech_; }
  Session& session() { return *session_; }
  const Session& session() const { return *session_; }

 private:
  ModelRun() = default;
  absl::Status LoadWeights(const ModelRunOptions& options, const BankPlace& place);
  void Describe(const ModelRunOptions& options);
  absl::Status FindTokenizer(const std::string& path);
  bool Ends(int32_t token) const;

  ModelRunOptions options_;
  ModelConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;  // null: see why
  absl::Status no_tokenizer_;
  std::unique_ptr<Session> session_;
  ModelReport model_;
  TurnReport speech_;
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_RUN_MODEL_RUN_H_
