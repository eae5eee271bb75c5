#include "npubank/runtime/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/runtime/compiled_submodel.h"

namespace npubank {
namespace {

// What a session and its submodels talk through.
constexpr char kTokens[] = "tokens";  // I32, one for each position of a chunk
constexpr char kSpan[] = "span";      // I32[2]: the first position, and how many count
constexpr char kLogits[] = "logits";  // F32, one for each token of the vocabulary

struct Talk {
  const char* name;
  ElementType element;
  uint64_t elements;
  SubmodelDescription::Placement placement;
};

absl::Status CheckTalk(const CompiledSubmodel& submodel) {
  using Placement = SubmodelDescription::Placement;
  const Talk talks[] = {{kTokens, ElementType::kI32, submodel.chunk, Placement::kInput},
                        {kSpan, ElementType::kI32, 2, Placement::kInput},
                        {kLogits, ElementType::kF32, submodel.vocabulary, Placement::kOutput}};
  size_t known = 0;
  for (const SubmodelDescription::Value& value : submodel.description.values) {
    if (value.placement != Placement::kInput && value.placement != Placement::kOutput) continue;
    const bool fits = std::any_of(std::begin(talks), std::end(talks), [&](const Talk& talk) {
      return value.name == talk.name && value.placement == talk.placement &&
             value.type.element() == talk.element &&
             static_cast<uint64_t>(value.type.num_elements()) == talk.elements;
    });
    if (!fits)
      return absl::InvalidArgumentError(
          absl::StrCat("submodel '", submodel.description.name, "': value '", value.name, "' (",
                       value.type.ToString(), ") is not one that a session provides"));
    ++known;
  }
  if (known == std::size(talks)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("submodel '", submodel.description.name,
                                                 "' does not take tokens and span and give logits"));
}

absl::Status CheckTogether(const CompiledSubmodel& first, const CompiledSubmodel& other) {
  if (first.context == other.context && first.vocabulary == other.vocabulary)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("submodel '", other.description.name, "' has a context of ", other.context,
                   " and a vocabulary of ", other.vocabulary, ", the others ", first.context,
                   " and ", first.vocabulary, ": compile them for the same model and context"));
}

}  // namespace

int32_t Argmax(absl::Span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

absl::StatusOr<std::unique_ptr<Session>> Session::Load(std::shared_ptr<Npu> npu,
                                                       std::shared_ptr<Bank> bank,
                                                       absl::Span<const std::string> blobs,
                                                       std::shared_ptr<const SourceIndex> index,
                                                       const SessionOptions& options) {
  if (npu == nullptr || bank == nullptr || index == nullptr || blobs.empty()) {
    return absl::InvalidArgumentError(
        "a session needs an NPU, a bank on its memory, an index and at least one submodel");
  }
  std::unique_ptr<Session> session(new Session);
  std::vector<CompiledSubmodel> submodels;
  for (const std::string& blob : blobs) {
    NPUBANK_ASSIGN_OR_RETURN(CompiledSubmodel submodel, ReadCompiledSubmodel(blob, index));
    NPUBANK_RETURN_IF_ERROR(CheckTalk(submodel));
    submodels.push_back(std::move(submodel));
    NPUBANK_RETURN_IF_ERROR(CheckTogether(submodels.front(), submodels.back()));
  }
  session->context_ = static_cast<int64_t>(submodels.front().context);
  session->vocabulary_ = static_cast<int64_t>(submodels.front().vocabulary);
  std::vector<SubmodelDescription> descriptions;
  for (CompiledSubmodel& submodel : submodels) {
    session->chunks_.push_back(submodel.chunk);
    descriptions.push_back(std::move(submodel.description));
  }
  NPUBANK_ASSIGN_OR_RETURN(session->group_,
                           SubmodelGroup::Register(std::move(npu), std::move(bank),
                                                   std::move(descriptions), options.name));
  // Its functions are made when they are first run: loading works where a driver does not take
  // them.
  NPUBANK_RETURN_IF_ERROR(session->Wake(options.evaluate));
  return session;
}

absl::StatusOr<SleepReport> Session::Sleep(const SleepOptions& options) {
  NPUBANK_ASSIGN_OR_RETURN(const SleepReport report, group_->Sleep(options));
  position_ = 0;
  return report;
}

// The smallest chunk that holds all the tokens; where none does, the largest.
size_t Session::Choose(size_t tokens) const {
  size_t choice = 0;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    const bool fits = chunks_[i] >= tokens;
    const bool choice_fits = chunks_[choice] >= tokens;
    const bool smaller = chunks_[i] < chunks_[choice];
    if (fits != choice_fits ? fits : fits == smaller) choice = i;
  }
  return choice;
}

absl::StatusOr<absl::Span<const float>> Session::Feed(absl::Span<const int32_t> tokens) {
  if (tokens.empty()) return absl::InvalidArgumentError("no tokens to feed");
  if (static_cast<int64_t>(tokens.size()) > context_ - position_)
    return absl::InvalidArgumentError(absl::StrCat(
        tokens.size(), " tokens at position ", position_, " do not fit the context of ", context_,
        ": shorten the prompt or compile with a larger context"));
  for (int32_t token : tokens)
    if (token < 0 || token >= vocabulary_)
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", token, " is outside the vocabulary of ", vocabulary_));
  NPUBANK_RETURN_IF_ERROR(Prepare());
  const int64_t start = position_;
  while (!tokens.empty()) {
    const size_t submodel = Choose(tokens.size());
    const size_t count = std::min<size_t>(tokens.size(), chunks_[submodel]);
    absl::Status status = RunChunk(submodel, tokens.subspan(0, count));
    if (!status.ok()) {
      position_ = start;  // the cache beyond it is never read
      return status;
    }
    tokens.remove_prefix(count);
  }
  return absl::Span<const float>(reinterpret_cast<const float*>(group_->Buffer(kLogits).data()),
                                 vocabulary_);
}

absl::Status Session::RunChunk(size_t submodel, absl::Span<const int32_t> tokens) {
  std::memcpy(group_->Buffer(kTokens).data(), tokens.data(), tokens.size() * sizeof(int32_t));
  const int32_t span[] = {static_cast<int32_t>(position_), static_cast<int32_t>(tokens.size())};
  std::memcpy(group_->Buffer(kSpan).data(), span, sizeof(span));
  NPUBANK_RETURN_IF_ERROR(group_->Run(submodel));
  position_ += tokens.size();
  return absl::OkStatus();
}

}  // namespace npubank
