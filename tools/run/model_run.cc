#include "npubank/tools/run/model_run.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/files/atomic_file.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/tools/run/model_place.h"
#include "npubank/tools/terminal/progress_bar.h"
#include "npubank/tools/terminal/stopwatch.h"
#include "npubank/tools/tokenizers/open_tokenizer.h"

namespace npubank {
namespace {

constexpr int64_t kDefaultContext = 1024;

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
                                                          const DeviceMemoryTraits& device,
                                                          std::vector<std::string>& converted) {
  const ModelConfig& config = checkpoint.config();
  CompileOptions compile;
  compile.device.argument_alignment = device.argument_alignment;
  compile.weights = options.weights;
  compile.attention = options.attention;
  compile.schedule = options.schedule;
  compile.context =
      options.context > 0 ? options.context : std::min(config.context_length, kDefaultContext);
  std::map<std::string, std::set<std::string>> by_kind;
  compile.converted = [&](absl::string_view tensor, absl::string_view becomes) {
    by_kind[std::string(becomes)].emplace(tensor);
  };
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
  for (const auto& [becomes, names] : by_kind) {
    converted.push_back(absl::StrCat(becomes, ": ", names.size(), " weights"));
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
  run->options_ = options;
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
  NPUBANK_ASSIGN_OR_RETURN(const std::string path, FindModel(options.model));
  // The checkpoint goes when this returns: nothing needs its files any more.
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(path));
  config_ = checkpoint->config();
  NPUBANK_ASSIGN_OR_RETURN(config_.eos_tokens, EndTokens(path, config_.eos_tokens));
  NPUBANK_RETURN_IF_ERROR(FindTokenizer(path));
  const Stopwatch compiling;
  NPUBANK_ASSIGN_OR_RETURN(std::vector<std::string> blobs,
                           CompileSubmodels(*checkpoint, options, place.memory->traits(), model_.converted));
  model_.compile_seconds = compiling.Seconds();
  ProgressBar bar("loading weights");
  SessionOptions session;
  session.name = options.name;
  session.evaluate.progress = [&](const LoadProgress& progress) {
    bar.Show(progress.bytes_done, progress.bytes_total, progress.tensor);
  };
  NPUBANK_ASSIGN_OR_RETURN(
      session_, Session::Load(place.npu, place.bank, blobs, checkpoint->index(), session));
  model_.weights_seconds = session_->wake_seconds();
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

absl::Status ModelRun::FindTokenizer(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> found =
      OpenTokenizer(path, static_cast<int32_t>(config_.bos_token));
  if (found.ok()) {
    tokenizer_ = *std::move(found);
  } else if (absl::IsNotFound(found.status()) || absl::IsUnimplemented(found.status())) {
    no_tokenizer_ = found.status();  // no error until text has to be turned into ids
  } else {
    return found.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ModelRun::Encode(absl::string_view prompt) const {
  const auto bos = static_cast<int32_t>(config_.bos_token);
  if (!tokenizer_) {
    if (prompt.empty()) return std::vector<int32_t>{bos};
    return absl::FailedPreconditionError(
        absl::StrCat(no_tokenizer_.message(), ": use --prompt-ids"));
  }
  NPUBANK_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer_->Encode(prompt));
  if (ids.empty()) ids.push_back(bos);  // a model has to begin with something
  for (const int32_t id : ids) {
    if (id < config_.vocab_size) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has the token ", id, " but the model's vocab_size is ",
                     config_.vocab_size, ": the tokenizer is another model's"));
  }
  return ids;
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

  speech_.ids.clear();
  speech_.text.clear();
  std::optional<TextStream> stream;
  if (tokenizer_) stream.emplace(*tokenizer_);
  const auto tell = [&](const std::string& text) {
    speech_.text += text;
    emit(text);
  };
  const auto append = [&](int32_t token) {
    speech_.ids.push_back(token);
    if (stream) tell(stream->Push(token));
  };
  for (const int32_t token : prompt) append(token);
  Stopwatch watch;
  int64_t made = 0;
  Sampler sampler(options_.sampler);
  while (made < tokens && !stopped()) {
    const int32_t next = sampler.Pick(logits);
    if (Ends(next)) break;
    append(next);
    ++made;
    if (made == tokens || session_->position() == session_->context()) break;
    NPUBANK_ASSIGN_OR_RETURN(logits, session_->Feed({next}));
  }
  const double seconds = watch.Seconds();
  if (stream) tell(stream->Finish());
  speech_.prompt_tokens = prompt.size();
  speech_.generated_tokens = made;
  speech_.prompt_tokens_per_second = prompt.size() / prompt_seconds;
  // The first token came with the prompt's logits.
  speech_.generated_tokens_per_second = made > 1 ? (made - 1) / seconds : 0;
  return absl::OkStatus();
}

}  // namespace npubank
