#include "npubank/tools/export/evaluated_ahead.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/base/thread.h"
#include "npubank/lazy_tensor/recipe/recipe.h"

namespace npubank {

EvaluatedAhead::EvaluatedAhead(std::vector<LazyTensor> tensors, const EvaluateOptions& options,
                               uint64_t piece_bytes)
    : tensors_(std::move(tensors)), options_(options), piece_bytes_(piece_bytes) {}

EvaluatedAhead::~EvaluatedAhead() {
  if (ahead_.joinable()) ahead_.join();
}

absl::StatusOr<absl::Span<const std::byte>> EvaluatedAhead::From(size_t tensor, uint64_t offset) {
  const auto is_before = [&](const Part& part) {
    return std::tie(part.tensor, part.end) <= std::tie(tensor, offset);
  };
  while (now_.parts.empty() || is_before(now_.parts.back())) {
    if (!Advance()) return absl::InvalidArgumentError("there are no more bytes to evaluate");
  }
  const Part& part = *std::find_if_not(now_.parts.begin(), now_.parts.end(), is_before);
  if (part.tensor != tensor || offset < part.begin) {
    return absl::InvalidArgumentError(absl::StrCat("of tensor ", tensor, " nothing is at ", offset,
                                                   ", or it has passed: it is read front to back"));
  }
  NPUBANK_RETURN_IF_ERROR(part.status);
  return absl::MakeConstSpan(now_.bytes() + part.place + (offset - part.begin),
                             part.end - offset);
}

uint64_t EvaluatedAhead::BytesOf(size_t tensor) const { return tensors_[tensor].type().bytes(); }

absl::Status EvaluatedAhead::EvaluatePart(const Part& part) {
  const absl::Span<std::byte> out(next_.bytes() + part.place, part.end - part.begin);
  NPUBANK_ASSIGN_OR_RETURN(const RecipePtr recipe, tensors_[part.tensor].MakeRecipe());
  return EvaluateRange(*recipe, part.begin, out, options_);
}

// Only a tensor that has a piece to itself is torn.
void EvaluatedAhead::Evaluate() {
  if (next_.pages == nullptr) {
    next_.pages = std::make_unique_for_overwrite<Page[]>(piece_bytes_ / sizeof(Page));
  }
  next_.parts.clear();
  for (uint64_t place = 0; tensor_ < tensors_.size();) {
    const uint64_t left = BytesOf(tensor_) - begin_;
    if (place > 0 && place + left > piece_bytes_) break;
    Part part{tensor_, begin_, begin_ + std::min(left, piece_bytes_), place, absl::OkStatus()};
    part.status = EvaluatePart(part);
    place = AlignUp(place + part.end - part.begin, sizeof(Page));
    begin_ = part.end;
    if (begin_ == BytesOf(tensor_)) {
      ++tensor_;
      begin_ = 0;
    }
    next_.parts.push_back(std::move(part));
    if (place >= piece_bytes_) break;
  }
}

bool EvaluatedAhead::Advance() {
  if (ahead_.joinable()) {
    ahead_.join();
  } else {
    Evaluate();
  }
  if (next_.parts.empty()) return false;
  std::swap(now_, next_);
  next_.parts.clear();
  if (tensor_ == tensors_.size()) return true;
  // Where the system has no thread to give, the next piece is evaluated when it is wanted.
  if (auto thread = StartThread([this] { Evaluate(); }); thread.ok()) ahead_ = *std::move(thread);
  return true;
}

}  // namespace npubank
