#include "npubank/bank/evaluator.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/content.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"

namespace npubank {
namespace {

constexpr uint64_t kPiece = 256 << 10;  // stays in a core's cache between reading and writing

}  // namespace

Evaluator::Evaluator(std::shared_ptr<DeviceMemory> device, std::shared_ptr<Workers> workers)
    : device_(std::move(device)), workers_(std::move(workers)) {}

absl::StatusOr<std::shared_ptr<DeviceAllocation>> Evaluator::Import(const Recipe& recipe,
                                                                    const std::string& name) const {
  const auto* constant = std::get_if<ConstantOp>(&recipe.op());
  if (constant == nullptr || !constant->hold->source().persistent()) {
    return absl::UnimplementedError("only a constant in a file can be imported");
  }
  return device_->Import(constant->hold->shared_source(), constant->offset, recipe.type().bytes(),
                         name);
}

absl::StatusOr<std::shared_ptr<DeviceAllocation>> Evaluator::Evaluate(
    const Recipe& recipe, const std::string& name, const std::function<bool()>& cancelled) const {
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<DeviceAllocation> memory,
                           device_->Allocate(recipe.type().bytes(), name));
  EvaluateOptions options;
  options.workers = workers_.get();
  options.cancelled = cancelled;
  NPUBANK_RETURN_IF_ERROR(device_->Write(*memory, [&](uint64_t offset, absl::Span<std::byte> out) {
    return EvaluateRange(recipe, offset, out, options);
  }));
  return std::shared_ptr<DeviceAllocation>(std::move(memory));
}

absl::StatusOr<std::shared_ptr<DeviceAllocation>> Evaluator::Copy(absl::Span<const std::byte> bytes,
                                                                  const std::string& name) const {
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<DeviceAllocation> memory,
                           device_->Allocate(bytes.size(), name));
  NPUBANK_RETURN_IF_ERROR(device_->Write(*memory, [&](uint64_t offset, absl::Span<std::byte> out) {
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    return absl::OkStatus();
  }));
  return std::shared_ptr<DeviceAllocation>(std::move(memory));
}

absl::StatusOr<std::shared_ptr<DeviceAllocation>> Evaluator::Import(const CachedBytes& cached,
                                                                    const std::string& name) const {
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<DeviceAllocation> memory,
                           device_->Import(cached.file, cached.offset, cached.bytes, name));
  NPUBANK_RETURN_IF_ERROR(CheckPayload(cached));
  return std::shared_ptr<DeviceAllocation>(std::move(memory));
}

absl::StatusOr<std::shared_ptr<DeviceAllocation>> Evaluator::Fetch(const CachedBytes& cached,
                                                                   const std::string& name) const {
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<DeviceAllocation> memory,
                           device_->Allocate(cached.bytes, name));
  // Device memory is never read here: what is hashed is on its way there.
  ContentHash hash;
  std::vector<std::byte> piece(std::min(cached.bytes, kPiece));
  const auto produce = [&](uint64_t offset, absl::Span<std::byte> out) {
    for (size_t done = 0; done < out.size(); done += piece.size()) {
      piece.resize(std::min<uint64_t>(kPiece, out.size() - done));
      NPUBANK_RETURN_IF_ERROR(ReadPayload(cached, offset + done, absl::MakeSpan(piece)));
      hash.Add(piece);
      std::memcpy(out.data() + done, piece.data(), piece.size());
    }
    return absl::OkStatus();
  };
  NPUBANK_RETURN_IF_ERROR(device_->Write(*memory, produce));
  if (hash.Finish() != cached.hash) {
    return absl::DataLossError(absl::StrCat("'", cached.file->name(), "': the payload of '", name,
                                            "' at ", cached.offset, " is not what was written"));
  }
  return std::shared_ptr<DeviceAllocation>(std::move(memory));
}

}  // namespace npubank
