#include "npubank/tools/model_run.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/files/atomic_file.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/lazy_tensor/formats/model/vocabulary.h"
#include "npubank/tools/terminal/progress_bar.h"
#include "npubank/tools/terminal/stopwatch.h"

namespace npubank {
namespace {

constexpr int64_t kDefaultContext = 1024;

// The checkpoint's own vocabulary, or the tokens.json in the folder above it: several layouts of
// one model may share one. None is no error until text has to be turned into ids.
absl::StatusOr<std::optional<Tokenizer>> FindTokenizer(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  absl::StatusOr<Vocabulary> vocabulary = checkpoint.LoadVocabulary();
  if (absl::IsNotFound(vocabulary.status())) {
    std::error_code error;
    const std::filesystem::path above =
        std::filesystem::weakly_canonical(checkpoint.path(), error).parent_path() / "tokens.json";
    if (!std::filesystem::exists(above, error)) return std::optional<Tokenizer>();
    vocabulary = ReadVocabulary(above.string());
  }
  if (absl::IsUnimplemented(vocabulary.status())) return std::optional<Tokenizer>();
  NPUBANK_RETURN_IF_ERROR(vocabulary.status());
  // Fewer is fine: embedding tables are often padded.
  if (static_cast<int64_t>(vocabulary->pieces.size()) > config.vocab_size)
    return absl::InvalidArgumentError(absl::StrCat(
        "'", checkpoint.path(), "': the vocabulary has ", vocabulary->pieces.size(),
        " pieces but the model's vocab_size is ", config.vocab_size, ": it is another model's"));
  NPUBANK_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                           Tokenizer::Create(*std::move(vocabulary), config.bos_token));
  return std::optional<Tokenizer>(std::move(tokenizer));
}

absl::Status SaveBlob(const std::string& folder, const std::string& name, const std::string& blob) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // what fails here, fails below by name
  NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(folder + "/" + name + ".npbs"));
  NPUBANK_RETURN_IF_ERROR(file.Append(blob));
  return file.Commit();
}

// The two submodels: prefill for the prompt, kvcache for each next token.
absl::StatusOr<std::vector<std::string>> CompileSubmodels(const Checkpoint& checkpoint,
                                                          const ModelRunOptions& options,
                                                          const DeviceMemoryTraits& device) {
  const ModelConfig& config = checkpoint.config();
  CompileOptions compile;
  compile.device.argument_alignment = device.argument_alignment;
  compile.weights = options.weights;
  compile.attention = options.attention;
  compile.schedule = options.schedule;
  compile.context =
      options.context > 0 ? options.context : std::min(config.context_length, kDefaultContext);
  std::vector<std::string> blobs;
  for (const auto& [name, chunk] :
       {std::pair<std::string, int64_t>{"prefill", std::min(options.chunk, compile.context)},
        {"kvcache", 1}}) {
    compile.name = name;
    compile.chunk = chunk;
    NPUBANK_ASSIGN_OR_RETURN(std::string blob, Compile(checkpoint, compile));
    if (!options.save_blobs.empty())
      NPUBANK_RETURN_IF_ERROR(SaveBlob(options.save_blobs, name, blob));
    blobs.push_back(std::move(blob));
  }
  return blobs;
}

SubmodelReport Describe(const Submodel& submodel) {
  SubmodelReport report;
  report.name = submodel.name();
  report.calls = submodel.description().calls.size();
  report.closures = submodel.closures();
  report.weights = submodel.description().weights.size();
  report.weight_bytes = submodel.weight_bytes();
  report.hits = submodel.hits();
  report.hit_bytes = submodel.hit_bytes();
  report.arena_bytes = submodel.description().arena_bytes;
  return report;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelRun>> ModelRun::Load(const ModelRunOptions& options,
                                                         const BankPlace& place) {
  std::unique_ptr<ModelRun> run(new ModelRun);
  const Stopwatch stopwatch;
  NPUBANK_RETURN_IF_ERROR(run->LoadWeights(options, place));
  run->model_.load_seconds = stopwatch.Seconds();
  run->Describe(options);
  return run;
}

void ModelRun::Describe(const ModelRunOptions& options) {
  model_.name = options.name;
  model_.path = options.model;
  std::map<uint64_t, uint64_t> bytes;  // by uid: the submodels share them
  for (const Submodel& submodel : session_->submodels()) {
    model_.submodels.push_back(npubank::Describe(submodel));
    for (const Submodel::Weight& weight : submodel.weights())
      bytes[weight.uid.value] = weight.bytes;
  }
  for (const auto& [uid, size] : bytes) model_.weight_bytes += size;
}

absl::Status ModelRun::LoadWeights(const ModelRunOptions& options, const BankPlace& place) {
  // The checkpoint goes when this returns: nothing needs its files any more.
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> checkpoint,
                           Checkpoint::Open(options.model));
  config_ = checkpoint->config();
  NPUBANK_ASSIGN_OR_RETURN(tokenizer_, FindTokenizer(*checkpoint));
  const Stopwatch compiling;
  NPUBANK_ASSIGN_OR_RETURN(std::vector<std::string> blobs,
                           CompileSubmodels(*checkpoint, options, place.memory->traits()));
  model_.compile_seconds = compiling.Seconds();
  ProgressBar bar("loading weights");
  SessionOptions session;
  session.name = options.name;
  session.evaluate.progress = [&](const LoadProgress& progress) {
    bar.Show(progress.bytes_done, progress.bytes_total, progress.tensor);
  };
  NPUBANK_ASSIGN_OR_RETURN(
      session_, Session::Load(place.npu, place.bank, blobs, checkpoint->index(), session));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ModelRun::Resume() {
  uint64_t bytes = 0;
  LoadOptions options;
  options.progress = [&](const LoadProgress& progress) { bytes = progress.bytes_done; };
  NPUBANK_RETURN_IF_ERROR(session_->Wake(options));
  NPUBANK_RETURN_IF_ERROR(session_->Prepare());
  return bytes;
}

absl::StatusOr<std::vector<int32_t>> ModelRun::Encode(absl::string_view prompt) const {
  if (!tokenizer_) {
    if (prompt.empty()) return std::vector<int32_t>{static_cast<int32_t>(config_.bos_token)};
    return absl::FailedPreconditionError(
        "the model has no tokens.json to turn text into ids: use --prompt-ids");
  }
  const std::vector<int64_t> ids = tokenizer_->Encode(prompt);
  return std::vector<int32_t>(ids.begin(), ids.end());
}

bool ModelRun::Ends(int32_t token) const {
  return token == config_.bos_token ||
         std::find(config_.eos_tokens.begin(), config_.eos_tokens.end(), token) !=
             config_.eos_tokens.end();
}

absl::Status ModelRun::Generate(const std::vector<int32_t>& prompt, int64_t tokens,
                                const std::function<void(absl::string_view)>& emit) {
  session_->Rewind();
  Stopwatch prompt_watch;
  NPUBANK_ASSIGN_OR_RETURN(absl::Span<const float> logits, session_->Feed(prompt));
  const double prompt_seconds = prompt_watch.Seconds();
  speech_.first_token_seconds = prompt_seconds;

  speech_.ids = prompt;
  const auto append = [&](int32_t token) {
    const int32_t previous = speech_.ids.back();
    speech_.ids.push_back(token);
    if (tokenizer_) emit(tokenizer_->DecodeOne(previous, token));
  };
  for (size_t i = 0; tokenizer_ && i < prompt.size(); ++i)
    emit(tokenizer_->DecodeOne(i == 0 ? Tokenizer::kNone : prompt[i - 1], prompt[i]));
  Stopwatch watch;
  int64_t made = 0;
  while (made < tokens) {
    const int32_t next = Argmax(logits);
    if (Ends(next)) break;
    append(next);
    ++made;
    if (made == tokens || session_->position() == session_->context()) break;
    NPUBANK_ASSIGN_OR_RETURN(logits, session_->Feed({next}));
  }
  const double seconds = watch.Seconds();
  if (tokenizer_)
    speech_.text = tokenizer_->Decode(std::vector<int64_t>(speech_.ids.begin(), speech_.ids.end()));
  speech_.prompt_tokens = prompt.size();
  speech_.generated_tokens = made;
  speech_.prompt_tokens_per_second = prompt.size() / prompt_seconds;
  // The first token came with the prompt's logits.
  speech_.generated_tokens_per_second = made > 1 ? (made - 1) / seconds : 0;
  return absl::OkStatus();
}

}  // namespace npubank
