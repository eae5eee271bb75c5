#include "npubank/bank/service/daemon/kept_index.h"

#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/daemon/kept_index_generated.h"
#include "npubank/bank/service/segment.h"
#include "npubank/lazy_tensor/base/byte_budget.h"
#include "npubank/lazy_tensor/base/flatbuffer.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

constexpr uint64_t kMostExpansion = 16;

absl::Status Corrupt(absl::string_view how) {
  return absl::InvalidArgumentError(absl::StrCat("a corrupt index of kept segments: ", how));
}

flatbuffers::Offset<kept::Tensor> EncodeTensor(flatbuffers::FlatBufferBuilder& builder,
                                               const KeptIndex::Tensor& from) {
  const AdoptedTensor& tensor = from.tensor;
  const absl::Span<const int64_t> dims = tensor.type.shape().dims();
  const auto dims_at = builder.CreateVector(dims.data(), dims.size());
  const auto name = builder.CreateString(tensor.name);
  return kept::CreateTensor(builder, Uid::Of(tensor.digest).value, tensor.digest.high,
                            tensor.digest.low, tensor.stamp.high, tensor.stamp.low,
                            static_cast<uint8_t>(tensor.type.element()), dims_at, name,
                            from.segment, from.offset, tensor.type.bytes(),
                            from.hash.high, from.hash.low);
}

absl::StatusOr<TensorType> DecodeType(const kept::Tensor& from) {
  const std::optional<ElementType> element = ElementTypeFromNumber(from.element());
  if (!element) return Corrupt(absl::StrCat("element type number ", from.element()));
  std::vector<int64_t> dims(from.dims() == nullptr ? 0 : from.dims()->size());
  if (dims.size() > Shape::kMaxRank) return Corrupt("too many dimensions");
  // Bytewise: the verifier lets them begin at any multiple of four.
  if (!dims.empty()) std::memcpy(dims.data(), from.dims()->Data(), dims.size() * sizeof(int64_t));
  NPUBANK_ASSIGN_OR_RETURN(Shape shape, Shape::Create(dims));
  return TensorType::Create(*element, std::move(shape));
}

absl::StatusOr<KeptIndex::Tensor> DecodeTensor(const kept::Tensor& from,
                                               absl::Span<const KeptIndex::Segment> segments,
                                               ByteBudget& budget) {
  KeptIndex::Tensor to;
  to.tensor.digest = {from.digest_high(), from.digest_low()};
  to.tensor.stamp = {from.stamp_high(), from.stamp_low()};
  if (Uid::Of(to.tensor.digest).value != from.uid()) return Corrupt("a uid of another digest");
  NPUBANK_ASSIGN_OR_RETURN(to.tensor.type, DecodeType(from));
  const uint64_t bytes = to.tensor.type.bytes();
  if (bytes == 0 || bytes != from.bytes()) return Corrupt("a type of another size");
  if (from.segment() >= segments.size()) return Corrupt("a segment that is not there");
  to.segment = static_cast<uint32_t>(from.segment());
  to.offset = from.offset();
  if (to.offset % Segment::kPage != 0 || !RangeFits(to.offset, bytes, segments[to.segment].bytes)) {
    return Corrupt("a tensor beyond its segment");
  }
  to.hash = {from.hash_high(), from.hash_low()};
  if (from.name() != nullptr) {
    NPUBANK_RETURN_IF_ERROR(budget.Spend(from.name()->size()));
    to.tensor.name = from.name()->str();
  }
  return to;
}

}  // namespace

std::string KeptIndex::Encode(uint32_t result_revision) const {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<kept::Segment>> segments_at;
  for (const Segment& segment : segments) {
    segments_at.push_back(kept::CreateSegment(builder, segment.number, segment.bytes));
  }
  std::vector<flatbuffers::Offset<kept::Tensor>> tensors_at;
  for (const Tensor& tensor : tensors) tensors_at.push_back(EncodeTensor(builder, tensor));
  const auto segments_vector = builder.CreateVector(segments_at);
  const auto tensors_vector = builder.CreateVector(tensors_at);
  builder.Finish(kept::CreateIndex(builder, number, kProtocol, kRecipeCodec, result_revision,
                                   segments_vector, tensors_vector),
                 kept::IndexIdentifier());
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

absl::StatusOr<KeptIndex> KeptIndex::Decode(absl::string_view bytes) {
  using Root = FlatbufferRoot<kept::Index>;
  NPUBANK_ASSIGN_OR_RETURN(
      const Root root,
      Root::Open(bytes, kept::IndexIdentifier(), "index of kept segments",
                 {.bytes = kMostBytes, .tables = kMostTensors + kMostSegments + 1}));
  if (root->protocol() != kProtocol || root->recipe_codec() != kRecipeCodec ||
      root->result_revision() != kResultRevision) {
    return absl::FailedPreconditionError(absl::StrCat(
        "another version's daemon kept these segments: protocol ", root->protocol(),
        ", recipe codec ", root->recipe_codec(), ", result revision ", root->result_revision()));
  }
  KeptIndex index;
  index.number = root->number();
  // Many tensors may share one long name.
  ByteBudget budget(kMostExpansion * bytes.size(),
                    "a corrupt index of kept segments, whose parts repeat");
  std::set<uint64_t> numbers;
  if (root->segments() != nullptr) {
    if (root->segments()->size() > kMostSegments) return Corrupt("too many segments");
    for (const kept::Segment* segment : *root->segments()) {
      index.segments.push_back({.number = segment->number(), .bytes = segment->bytes()});
      if (!numbers.insert(segment->number()).second) return Corrupt("two segments of one number");
    }
  }
  if (root->tensors() == nullptr) return index;
  if (root->tensors()->size() > kMostTensors) return Corrupt("too many tensors");
  for (const kept::Tensor* tensor : *root->tensors()) {
    NPUBANK_ASSIGN_OR_RETURN(index.tensors.emplace_back(),
                             DecodeTensor(*tensor, index.segments, budget));
  }
  return index;
}

}  // namespace npubank::service
