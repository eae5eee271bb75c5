#include "npubank/bank/loading/evaluator.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/loading/content.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/evaluation/evaluate.h"

namespace npubank {
namespace {

constexpr uint64_t kPiece = 256 << 10;  // stays in a core's cache between reading and writing
constexpr uint64_t kFilePage = 4096;     // what a mapping of a file begins at, and no more is known

// What a recipe is when its bytes lie in a file as they are; else null.
const ConstantOp* ConstantOfFile(const Recipe& recipe) {
  const auto* constant = std::get_if<ConstantOp>(&recipe.op());
  return constant != nullptr && constant->hold->source().persistent() ? constant : nullptr;
}

}  // namespace

Evaluator::Evaluator(std::shared_ptr<DeviceMemory> device, std::shared_ptr<Workers> workers)
    : device_(std::move(device)), workers_(std::move(workers)) {}

bool Evaluator::PagesMeet(const MemoryHints& hints) {
  return hints.pool == 0 && hints.alignment <= kFilePage;
}

std::optional<ImportRange> Evaluator::RangeToImport(const Recipe& recipe,
                                                    const MemoryHints& hints) const {
  const ConstantOp* constant = ConstantOfFile(recipe);
  if (constant == nullptr) return std::nullopt;
  const Source& source = constant->hold->source();
  const uint64_t bytes = recipe.type().bytes();
  if (!Aligned(recipe.type(), constant->offset, hints) ||
      !device_->CanImport(source, constant->offset, bytes)) {
    return std::nullopt;
  }
  return ImportRange{.source = source.identity(), .offset = constant->offset, .bytes = bytes};
}

// No device reads a number that lies across the places of its type.
bool Evaluator::Aligned(const TensorType& type, uint64_t offset, const MemoryHints& hints) const {
  const auto element_bytes = static_cast<uint64_t>(BitWidth(type.element()) + 7) / 8;
  const uint64_t alignment =
      std::max({device_->traits().argument_alignment, element_bytes, hints.alignment});
  return PagesMeet(hints) && offset % alignment == 0;
}

bool Evaluator::Misaligned(const Recipe& recipe, const MemoryHints& hints) const {
  const ConstantOp* constant = ConstantOfFile(recipe);
  return constant != nullptr && device_->traits().imports && hints.pool == 0 &&
         !Aligned(recipe.type(), constant->offset, hints);
}

// Its payloads begin on pages.
std::optional<ImportRange> Evaluator::RangeToImport(const CachedBytes& cached,
                                                    const MemoryHints& hints) const {
  if (!PagesMeet(hints) || !device_->CanImport(*cached.file, cached.offset, cached.bytes))
    return std::nullopt;
  return ImportRange{
      .source = cached.file->identity(), .offset = cached.offset, .bytes = cached.bytes};
}

// The source is not open yet: what the device says of all sources has to do.
std::optional<ImportRange> Evaluator::RangeToImport(const Description& description,
                                                    uint64_t bytes,
                                                    const MemoryHints& hints) const {
  const std::optional<StoredConstant> stored = description.Stored();
  if (!device_->traits().imports || !stored.has_value() ||
      !Aligned(stored->type, stored->offset, hints)) {
    return std::nullopt;
  }
  return ImportRange{.source = stored->identity, .offset = stored->offset, .bytes = bytes};
}

Evaluator::MemoryOr Evaluator::ImportPages(std::shared_ptr<Source> source, uint64_t offset,
                                           uint64_t bytes, const Wanted& wanted) const {
  const auto refused = [&] {
    return absl::FailedPreconditionError(absl::StrCat("'", wanted.name, "' is wanted ",
                                                      wanted.hints.ToString(),
                                                      ", where no page of its file lies"));
  };
  if (!PagesMeet(wanted.hints)) return refused();
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<DeviceAllocation> memory,
                           device_->Import(std::move(source), offset, bytes, wanted.name));
  if (!wanted.hints.MetBy(memory->address())) return refused();
  return std::shared_ptr<DeviceAllocation>(std::move(memory));
}

Evaluator::MemoryOr Evaluator::Import(const Recipe& recipe, const Wanted& wanted) const {
  const ConstantOp* constant = ConstantOfFile(recipe);
  if (constant == nullptr) {
    return absl::UnimplementedError("only a constant in a file can be imported");
  }
  if (!Aligned(recipe.type(), constant->offset, wanted.hints)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", wanted.name, "', ", recipe.type().ToString(), ", lies at byte ", constant->offset, " of '",
        constant->hold->source().name(), "', which is no place for this argument of the device"));
  }
  return ImportPages(constant->hold->shared_source(), constant->offset, recipe.type().bytes(),
                     wanted);
}

Evaluator::MemoryOr Evaluator::Evaluate(const Recipe& recipe, const Wanted& wanted,
                                        const std::function<bool()>& cancelled) const {
  EvaluateOptions options;
  options.workers = workers_.get();
  options.f16_must_hold = true;
  options.cancelled = cancelled;
  NPUBANK_ASSIGN_OR_RETURN(
      std::unique_ptr<DeviceAllocation> memory,
      device_->AllocateAs(recipe.type().bytes(), wanted.name, wanted.hints));
  NPUBANK_RETURN_IF_ERROR(device_->Write(*memory, [&](uint64_t offset, absl::Span<std::byte> out) {
    return EvaluateRange(recipe, offset, out, options);
  }));
  return std::shared_ptr<DeviceAllocation>(std::move(memory));
}

Evaluator::MemoryOr Evaluator::Copy(absl::Span<const std::byte> bytes,
                                    const Wanted& wanted) const {
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<DeviceAllocation> memory,
                           device_->AllocateAs(bytes.size(), wanted.name, wanted.hints));
  NPUBANK_RETURN_IF_ERROR(device_->Write(*memory, [&](uint64_t offset, absl::Span<std::byte> out) {
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    return absl::OkStatus();
  }));
  return std::shared_ptr<DeviceAllocation>(std::move(memory));
}

Evaluator::MemoryOr Evaluator::Import(const Upstream::Leased& leased, uint64_t bytes,
                                      const Wanted& wanted) const {
  return ImportPages(leased.source, leased.offset, bytes, wanted);
}

Evaluator::MemoryOr Evaluator::Import(const CachedBytes& cached, const Wanted& wanted) const {
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<DeviceAllocation> memory,
                           ImportPages(cached.file, cached.offset, cached.bytes, wanted));
  NPUBANK_RETURN_IF_ERROR(CheckPayload(cached));
  return memory;
}

Evaluator::MemoryOr Evaluator::Fetch(const CachedBytes& cached, const Wanted& wanted) const {
  NPUBANK_ASSIGN_OR_RETURN(std::unique_ptr<DeviceAllocation> memory,
                           device_->AllocateAs(cached.bytes, wanted.name, wanted.hints));
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
    return absl::DataLossError(absl::StrCat("'", cached.file->name(), "': the payload of '", wanted.name,
                                            "' at ", cached.offset, " is not what was written"));
  }
  return std::shared_ptr<DeviceAllocation>(std::move(memory));
}

}  // namespace npubank
