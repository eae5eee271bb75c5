#include "npubank/bank/service/daemon/kept_segments.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "npubank/bank/loading/content.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr size_t kMostProblems = 100;
constexpr uint64_t kMostNumber = uint64_t{1} << 62;  // numbers that come back are counted on from

std::string SegmentName(uint64_t number) { return absl::StrCat("s", number); }
std::string IndexName(uint64_t number) { return absl::StrCat("i", number); }

// Of "s7" and "i7", the 7.
std::optional<uint64_t> NumberIn(absl::string_view name, absl::string_view kind) {
  uint64_t number = 0;
  const bool is = absl::ConsumePrefix(&name, kind) && absl::SimpleAtoi(name, &number);
  return is && number < kMostNumber ? std::optional(number) : std::nullopt;
}

absl::StatusOr<Digest> HashOf(const Segment& segment, uint64_t offset, uint64_t bytes) {
  ContentHash hash;
  std::vector<std::byte> piece(std::min(bytes, kPieceBytes));
  for (uint64_t done = 0; done < bytes; done += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), bytes - done));
    NPUBANK_RETURN_IF_ERROR(segment.Read(offset + done, absl::MakeSpan(piece)));
    hash.Add(piece);
  }
  return hash.Finish();
}

// An index in memory that nobody can change.
absl::StatusOr<std::shared_ptr<Segment>> Sealed(const std::string& index) {
  if (index.size() > KeptIndex::kMostBytes) {
    return absl::ResourceExhaustedError("an index of too many kept tensors");
  }
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment, Segment::Create("index"));
  NPUBANK_RETURN_IF_ERROR(segment->Write(
      0, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(index.data()), index.size())));
  NPUBANK_RETURN_IF_ERROR(segment->Seal(AlignUp<uint64_t>(index.size(), Segment::kPage)));
  return segment;
}

absl::StatusOr<KeptIndex> ReadIndex(FileDescriptor file, const std::string& name) {
  NPUBANK_ASSIGN_OR_RETURN(const auto segment, Segment::Adopt(std::move(file), name));
  if (segment->sealed_bytes() > KeptIndex::kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is too long for an index"));
  }
  std::string bytes(segment->sealed_bytes(), '\0');
  NPUBANK_RETURN_IF_ERROR(
      segment->Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size())));
  return KeptIndex::Decode(bytes);
}

// Tensors of one place have one allocation.
struct Place {
  SharedMemory::Range range;
  std::vector<AdoptedTensor> tensors;
};

// What lies in the segment, if each tensor's bytes have their hash.
absl::StatusOr<std::vector<Place>> Verify(const Segment& segment,
                                          absl::Span<const KeptIndex::Tensor* const> tensors) {
  std::map<uint64_t, Place> places;
  for (const KeptIndex::Tensor* tensor : tensors) {
    const uint64_t bytes = tensor->tensor.type.bytes();
    NPUBANK_ASSIGN_OR_RETURN(const Digest hash, HashOf(segment, tensor->offset, bytes));
    Place& place = places[tensor->offset];
    if (hash != tensor->hash || (!place.tensors.empty() && place.range.bytes != bytes)) {
      return absl::DataLossError(
          absl::StrCat("tensor '", absl::CEscape(tensor->tensor.name), "' is not what was kept"));
    }
    place.range = {.offset = tensor->offset, .bytes = bytes, .name = tensor->tensor.name};
    place.tensors.push_back(tensor->tensor);
  }
  std::vector<Place> verified;
  for (auto& [offset, place] : places) verified.push_back(std::move(place));
  return verified;
}

}  // namespace

// One stores at a time; the others wait, and find theirs stored.
class KeptSegments::Turn {
 public:
  explicit Turn(KeptSegments& kept) : kept_(kept) {
    MutexLock lock(kept_.mutex_);
    while (kept_.busy_) kept_.free_.Wait(kept_.mutex_);
    kept_.busy_ = true;
  }
  ~Turn() {
    MutexLock lock(kept_.mutex_);
    kept_.busy_ = false;
    kept_.free_.NotifyOne();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  KeptSegments& kept_;
};

void KeptSegments::Keep(absl::Span<const PublishedTensor> tensors) {
  if (NotKept(tensors).empty()) return;
  const Turn turn(*this);
  const std::vector<const PublishedTensor*> fresh = NotKept(tensors);
  if (fresh.empty()) return;
  const absl::Status status = Store(fresh);
  if (status.ok()) return;
  Note(absl::StrCat(fresh.size(), " tensors are not kept for the next daemon: ", status.message()));
  if (absl::IsDeadlineExceeded(status)) Rest();
}

std::vector<const PublishedTensor*> KeptSegments::NotKept(
    absl::Span<const PublishedTensor> tensors) const {
  std::vector<const PublishedTensor*> fresh;
  MutexLock lock(mutex_);
  if (resting_) return fresh;
  for (const PublishedTensor& of : tensors) {
    const auto segment = kept_.find(of.segment->id());
    if (segment == kept_.end() || !segment->second.tensors.contains(of.tensor.digest)) {
      fresh.push_back(&of);
    }
  }
  return fresh;
}

// What was told to the store and is in no index is taken out again.
absl::Status KeptSegments::Store(absl::Span<const PublishedTensor* const> fresh) {
  std::map<uint64_t, Kept> added;
  absl::Status status = StoreAll(fresh, added);
  if (status.ok()) status = StoreIndex(added);
  std::vector<std::string> in_vain;
  {
    MutexLock lock(mutex_);
    for (auto& [id, kept] : added) {
      if (status.ok()) {
        kept_[id] = std::move(kept);
      } else if (!kept_.contains(id)) {
        in_vain.push_back(SegmentName(kept.number));
      }
    }
  }
  for (const std::string& name : in_vain) TakeOut(name);
  return status;
}

absl::Status KeptSegments::StoreAll(absl::Span<const PublishedTensor* const> fresh,
                                    std::map<uint64_t, Kept>& added) {
  for (const PublishedTensor* of : fresh) {
    const Segment& segment = *of->segment;
    if (!added.contains(segment.id())) {
      std::optional<Kept> known;
      size_t segments = 0;
      {
        MutexLock lock(mutex_);
        const auto found = kept_.find(segment.id());
        if (found != kept_.end()) known = found->second;
        segments = kept_.size() + added.size();
      }
      if (!known && segments >= KeptIndex::kMostSegments) {
        return absl::ResourceExhaustedError(
            absl::StrCat(segments, " segments are kept, which is all that can be"));
      }
      Kept& kept = added[segment.id()];
      kept = known
                 ? *std::move(known)
                 : Kept{.number = ++last_segment_, .bytes = segment.sealed_bytes(), .tensors = {}};
      if (!known) {
        NPUBANK_RETURN_IF_ERROR(store_->Keep(SegmentName(kept.number), segment.descriptor()));
      }
    }
    NPUBANK_ASSIGN_OR_RETURN(
        const Digest hash,
        HashOf(segment, of->offset, of->tensor.type.bytes()));
    added[segment.id()].tensors[of->tensor.digest] = {
        .tensor = of->tensor, .segment = 0, .offset = of->offset, .hash = hash};
  }
  return absl::OkStatus();
}

absl::Status KeptSegments::StoreIndex(const std::map<uint64_t, Kept>& added) {
  KeptIndex index = IndexWith(added);
  index.number = ++last_index_;
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Segment> sealed, Sealed(index.Encode()));
  std::string name = IndexName(index.number);
  absl::Status status = store_->Keep(name, sealed->descriptor());
  if (status.ok()) status = store_->Barrier();
  const std::string needless = status.ok() ? std::exchange(index_, name) : name;
  if (!needless.empty()) TakeOut(needless);
  return status;
}

KeptIndex KeptSegments::IndexWith(const std::map<uint64_t, Kept>& added) const {
  std::map<uint64_t, Kept> all = added;  // which is what counts of a segment that is there already
  {
    MutexLock lock(mutex_);
    all.insert(kept_.begin(), kept_.end());
  }
  KeptIndex index;
  for (const auto& [id, kept] : all) {
    for (const auto& [digest, tensor] : kept.tensors) {
      index.tensors.push_back(tensor);
      index.tensors.back().segment = static_cast<uint32_t>(index.segments.size());
    }
    index.segments.push_back({.number = kept.number, .bytes = kept.bytes});
  }
  return index;
}

void KeptSegments::Forget(const Segment& segment) {
  std::string name;
  {
    MutexLock lock(mutex_);
    const auto found = kept_.find(segment.id());
    if (found == kept_.end() || resting_) return;
    name = SegmentName(found->second.number);
    kept_.erase(found);
  }
  TakeOut(name);
}

void KeptSegments::TakeOut(const std::string& name) {
  std::set<std::string> names;
  {
    MutexLock lock(mutex_);
    if (resting_) return;
    names.swap(owed_);
  }
  names.insert(name);
  for (auto next = names.begin(); next != names.end();) {
    const absl::Status status = store_->Forget(*next);
    if (!status.ok()) {
      Note(absl::StrCat("the service manager cannot be told what it need not keep: ",
                        status.message()));
      if (absl::IsDeadlineExceeded(status)) Rest();
      break;
    }
    next = names.erase(next);
  }
  MutexLock lock(mutex_);
  owed_.merge(names);
}

void KeptSegments::Rest() {
  MutexLock lock(mutex_);
  resting_ = true;
}

void KeptSegments::TakeBack(std::vector<NamedDescriptor> descriptors, SharedMemory& memory,
                            Bank& bank) {
  const Turn turn(*this);
  std::map<std::string, FileDescriptor> files;
  std::set<std::string> names;
  for (NamedDescriptor& of : descriptors) {
    names.insert(of.name);
    files.emplace(of.name, std::move(of.file));
    last_segment_ = std::max(last_segment_, NumberIn(of.name, "s").value_or(0));
    last_index_ = std::max(last_index_, NumberIn(of.name, "i").value_or(0));
  }
  if (files.empty()) return;
  absl::StatusOr<KeptIndex> index = OpenIndex(files);
  if (!index.ok()) Note(absl::StrCat("what was kept is not used: ", index.status().message()));
  if (index.ok()) {
    index_ = IndexName(index->number);
    AdoptAll(*index, files, memory, bank);
  }
  std::set<std::string> used = {index_};
  {
    MutexLock lock(mutex_);
    for (const auto& [id, kept] : kept_) used.insert(SegmentName(kept.number));
  }
  for (const std::string& name : names) {
    if (!used.contains(name)) TakeOut(name);
  }
}

// The youngest that can be read.
absl::StatusOr<KeptIndex> KeptSegments::OpenIndex(std::map<std::string, FileDescriptor>& files) {
  std::map<uint64_t, std::string, std::greater<>> indexes;
  for (const auto& [name, file] : files) {
    if (const auto number = NumberIn(name, "i")) indexes.emplace(*number, name);
  }
  absl::Status last = absl::NotFoundError("there is no index");
  for (const auto& [number, name] : indexes) {
    absl::StatusOr<KeptIndex> index = ReadIndex(std::move(files.at(name)), name);
    if (index.ok() && index->number == number) return index;
    last = index.ok() ? absl::InvalidArgumentError(absl::StrCat("'", name, "' is another index"))
                      : index.status();
  }
  return last;
}

void KeptSegments::AdoptAll(const KeptIndex& index, std::map<std::string, FileDescriptor>& files,
                            SharedMemory& memory, Bank& bank) {
  std::vector<std::vector<const KeptIndex::Tensor*>> tensors(index.segments.size());
  for (const KeptIndex::Tensor& tensor : index.tensors) tensors[tensor.segment].push_back(&tensor);
  // A tensor that left the bank while its segment was leased still, and was made again, lies in two.
  std::set<Digest> taken;
  for (size_t i = 0; i < index.segments.size(); ++i) {
    const std::string name = SegmentName(index.segments[i].number);
    auto file = files.extract(name);
    std::vector<const KeptIndex::Tensor*>& in_it = tensors[i];
    std::erase_if(in_it, [&](const auto* of) { return taken.contains(of->tensor.digest); });
    if (file.empty() || in_it.empty()) continue;  // it was taken out, or never got there, or is not needed
    const absl::Status status =
        Adopt(index.segments[i], in_it, std::move(file.mapped()), memory, bank);
    if (!status.ok()) {
      Note(absl::StrCat("'", name, "': ", status.message()));
      continue;
    }
    for (const KeptIndex::Tensor* of : in_it) taken.insert(of->tensor.digest);
  }
}

absl::Status KeptSegments::Adopt(const KeptIndex::Segment& of,
                                 absl::Span<const KeptIndex::Tensor* const> tensors,
                                 FileDescriptor file, SharedMemory& memory, Bank& bank) {
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment,
                           Segment::Adopt(std::move(file), SegmentName(of.number)));
  if (segment->sealed_bytes() != of.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", segment->sealed_bytes(), " bytes, not ", of.bytes));
  }
  Kept kept{.number = of.number, .bytes = of.bytes, .tensors = {}};
  NPUBANK_ASSIGN_OR_RETURN(const std::vector<Place> places, Verify(*segment, tensors));
  for (const KeptIndex::Tensor* tensor : tensors) kept.tensors[tensor->tensor.digest] = *tensor;
  std::vector<SharedMemory::Range> ranges;
  for (const Place& place : places) ranges.push_back(place.range);
  const uint64_t id = segment->id();
  {
    MutexLock lock(mutex_);
    kept_[id] = std::move(kept);  // so that it is taken out when the last of it goes
  }
  auto allocations = memory.Adopt(std::move(segment), ranges);
  if (!allocations.ok()) {
    MutexLock lock(mutex_);
    kept_.erase(id);
    return allocations.status();
  }
  absl::Status first;
  for (size_t i = 0; i < places.size(); ++i) {
    const absl::Status status = bank.Adopt(places[i].tensors, std::move((*allocations)[i]));
    if (!status.ok() && first.ok()) first = status;
    MutexLock lock(mutex_);
    if (status.ok()) adopted_ += places[i].tensors.size();
  }
  return first;
}

bool KeptSegments::Has(const Segment& segment) const {
  MutexLock lock(mutex_);
  return kept_.contains(segment.id());
}

uint64_t KeptSegments::adopted() const {
  MutexLock lock(mutex_);
  return adopted_;
}

std::vector<std::string> KeptSegments::problems() const {
  MutexLock lock(mutex_);
  return problems_;
}

void KeptSegments::Note(std::string problem) {
  MutexLock lock(mutex_);
  const bool said = std::find(problems_.begin(), problems_.end(), problem) != problems_.end();
  if (!said && problems_.size() < kMostProblems) problems_.push_back(std::move(problem));
}

}  // namespace npubank::service
