#include "bank/cache_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bank/atomic_file.h"
#include "bank/cache_generated.h"
#include "bank/content.h"
#include "lazy_tensor/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kPiece = 1 << 20;
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;
constexpr size_t kMaxProblems = 100;  // a full disk would fill the report
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 62;

uint64_t PageAfter(uint64_t offset) {
  return (offset + CacheFile::kAlignment - 1) / CacheFile::kAlignment * CacheFile::kAlignment;
}

absl::string_view AsText(absl::Span<const std::byte> bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::StatusOr<std::string> ReadText(const Source& file, uint64_t offset, uint64_t size) {
  std::string text(size, '\0');
  NPUBANK_RETURN_IF_ERROR(
      file.Read(offset, absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  return text;
}

// Copies in pieces and returns the hash of what passed.
absl::StatusOr<Digest> Copy(uint64_t bytes, CacheFile::ReadBytes read, AtomicFile& to,
                            uint64_t offset) {
  ContentHash hash;
  std::vector<std::byte> piece(std::min(bytes, kPiece));
  for (uint64_t done = 0; done < bytes; done += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), bytes - done));
    NPUBANK_RETURN_IF_ERROR(read(done, absl::MakeSpan(piece)));
    hash.Add(piece);
    NPUBANK_RETURN_IF_ERROR(to.WriteAt(offset + done, AsText(piece)));
  }
  return hash.Finish();
}

absl::Status Corrupt(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("corrupt ", kCacheFile.words, ": ", what));
}

}  // namespace

// A file that is being written. Guarded by the cache's mutex, but for the writing itself: each
// adder has a range of its own.
struct CacheFile::Draft {
  explicit Draft(AtomicFile opened) : file(std::move(opened)) {}
  AtomicFile file;
  uint64_t end = kAlignment;  // the seal has the first page
  int adding = 0;
  std::map<Digest, CachedBytes> entries;  // without a file: it is this one
};

absl::Status CheckPayload(const CachedBytes& cached) {
  ContentHash hash;
  std::vector<std::byte> piece(std::min(cached.bytes, kPiece));
  for (uint64_t done = 0; done < cached.bytes; done += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), cached.bytes - done));
    NPUBANK_RETURN_IF_ERROR(cached.file->Read(cached.offset + done, absl::MakeSpan(piece)));
    hash.Add(piece);
  }
  if (hash.Finish() == cached.hash) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("'", cached.file->name(), "': the payload at ",
                                          cached.offset, " is not what was written"));
}

absl::StatusOr<CacheEntries> ReadCacheIndex(const std::shared_ptr<Source>& file) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string head,
                           ReadText(*file, 0, std::min<uint64_t>(file->size(), FileSeal::kBytes)));
  NPUBANK_ASSIGN_OR_RETURN(const FileSeal seal, ReadSeal(kCacheFile, head, file->size()));
  if (seal.size > kMaxIndexBytes || seal.size != file->size() - seal.offset) {
    return Corrupt("its index does not end with the file");
  }
  NPUBANK_ASSIGN_OR_RETURN(const std::string index, ReadText(*file, seal.offset, seal.size));
  NPUBANK_RETURN_IF_ERROR(CheckSeal(kCacheFile, head, index));
  // A std::string of this size is aligned as malloc aligns, which is what the verifier asks for.
  const auto* data = reinterpret_cast<const uint8_t*>(index.data());
  flatbuffers::Verifier verifier(data, index.size());
  if (index.size() < sizeof(uint64_t) || !wire::VerifyCacheIndexBuffer(verifier)) {
    return Corrupt("its index refers beyond its end");
  }
  CacheEntries entries;
  const auto* tensors = wire::GetCacheIndex(data)->tensors();
  if (tensors == nullptr) return entries;
  for (const wire::CachedTensor* tensor : *tensors) {
    const CachedBytes cached{.file = file,
                             .offset = tensor->offset(),
                             .bytes = tensor->bytes(),
                             .hash = {tensor->hash_high(), tensor->hash_low()}};
    if (cached.bytes == 0 || cached.offset < CacheFile::kAlignment ||
        cached.offset % CacheFile::kAlignment != 0 || cached.offset > seal.offset ||
        cached.bytes > seal.offset - cached.offset) {
      return Corrupt(absl::StrCat("a payload of ", cached.bytes, " bytes at ", cached.offset,
                                  " does not lie between its seal and its index"));
    }
    const Digest digest{tensor->digest_high(), tensor->digest_low()};
    if (!entries.emplace(digest, cached).second) return Corrupt("a tensor is in it twice");
  }
  return entries;
}

CacheFile::CacheFile(CacheOptions options) : options_(std::move(options)) {}
CacheFile::~CacheFile() = default;

std::shared_ptr<CacheFile> CacheFile::Open(CacheOptions options) {
  std::shared_ptr<CacheFile> cache(new CacheFile(std::move(options)));
  const std::string& path = cache->options_.path;
  absl::StatusOr<CacheEntries> entries = cache->ReadFile();
  std::vector<std::string> problems;
  if (!entries.ok() && !absl::IsNotFound(entries.status())) {
    problems.push_back(absl::StrCat("'", path, "' is not used: ", entries.status().message()));
  }
  if (entries.ok() && cache->options_.verify_at_open) {
    std::erase_if(*entries, [&](const auto& entry) {
      const absl::Status status = CheckPayload(entry.second);
      if (!status.ok()) problems.push_back(std::string(status.message()));
      return !status.ok();
    });
  }
  MutexLock lock(cache->mutex_);
  if (entries.ok()) cache->entries_ = *std::move(entries);
  cache->problems_ = std::move(problems);
  return cache;
}

absl::StatusOr<CacheEntries> CacheFile::ReadFile() const {
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Source> file, Source::OpenFile(options_.path));
  return ReadCacheIndex(file);
}

std::optional<CachedBytes> CacheFile::Find(const Digest& digest, uint64_t bytes) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(digest);
  if (found == entries_.end() || found->second.bytes != bytes) return std::nullopt;
  return found->second;
}

void CacheFile::Distrust(const Digest& digest, const absl::Status& why) {
  CachedBytes dropped;  // may close the file: after the lock
  MutexLock lock(mutex_);
  const auto found = entries_.find(digest);
  if (found == entries_.end()) return;
  dropped = std::move(found->second);
  entries_.erase(found);
  distrusted_.insert(digest);
  problems_.push_back(std::string(why.message()));
}

absl::StatusOr<std::shared_ptr<CacheFile::Draft>> CacheFile::BeginAdding(uint64_t bytes,
                                                                         uint64_t* offset) {
  std::shared_ptr<Draft> fresh;  // dropped after the lock when another thread was faster
  bool wanted;
  {
    MutexLock lock(mutex_);
    wanted = draft_ == nullptr;
  }
  if (wanted) {
    NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(options_.path));
    fresh = std::make_shared<Draft>(std::move(file));
  }
  MutexLock lock(mutex_);
  // A Save may have taken the draft meanwhile: the next try begins another.
  if (draft_ == nullptr && fresh == nullptr) return absl::AbortedError("being saved");
  if (draft_ == nullptr) draft_ = std::move(fresh);
  if (bytes > kMaxFileBytes - draft_->end) return absl::ResourceExhaustedError("too large");
  *offset = draft_->end;
  draft_->end = PageAfter(draft_->end + bytes);
  ++draft_->adding;
  return draft_;
}

void CacheFile::EndAdding(Draft& draft, const Digest& digest, const CachedBytes* added) {
  MutexLock lock(mutex_);
  if (added != nullptr) draft.entries.emplace(digest, *added);
  --draft.adding;
  added_.NotifyAll();
}

absl::Status CacheFile::Add(const Digest& digest, uint64_t bytes, ReadBytes read) {
  if (bytes == 0) return absl::OkStatus();
  CachedBytes added{.file = nullptr, .offset = 0, .bytes = bytes, .hash = {}};
  absl::StatusOr<std::shared_ptr<Draft>> draft = BeginAdding(bytes, &added.offset);
  while (absl::IsAborted(draft.status())) draft = BeginAdding(bytes, &added.offset);
  absl::Status status = draft.status();
  if (draft.ok()) {
    const absl::StatusOr<Digest> hash = Copy(bytes, read, (*draft)->file, added.offset);
    status = hash.status();
    if (hash.ok()) added.hash = *hash;
    EndAdding(**draft, digest, hash.ok() ? &added : nullptr);
  }
  if (!status.ok()) {
    MutexLock lock(mutex_);
    if (problems_.size() < kMaxProblems) {
      problems_.push_back(absl::StrCat("not added to the cache: ", status.message()));
    }
  }
  return status;
}

absl::Status CacheFile::Save() {
  std::shared_ptr<Draft> draft;
  {
    MutexLock lock(mutex_);
    draft = std::move(draft_);
    draft_ = nullptr;
    if (draft == nullptr) return absl::OkStatus();
    while (draft->adding > 0) added_.Wait(mutex_);
    if (draft->entries.empty()) return absl::OkStatus();
  }
  NPUBANK_RETURN_IF_ERROR(Annotate(Write(*draft), "saving the weights cache"));
  NPUBANK_ASSIGN_OR_RETURN(CacheEntries entries, ReadFile());
  MutexLock lock(mutex_);
  entries_.swap(entries);
  distrusted_.clear();
  return absl::OkStatus();
}

// Nobody adds to the draft any more. What the file has by now, from whichever process, goes along
// unless it was damaged.
absl::Status CacheFile::Write(Draft& draft) const {
  std::set<Digest> distrusted;
  {
    MutexLock lock(mutex_);
    distrusted = distrusted_;
  }
  if (const absl::StatusOr<CacheEntries> old = ReadFile(); old.ok()) {
    for (const auto& [digest, cached] : *old) {
      if (draft.entries.count(digest) > 0 || distrusted.count(digest) > 0) continue;
      const Source& from = *cached.file;
      const auto read = [&, start = cached.offset](uint64_t offset, absl::Span<std::byte> out) {
        return from.Read(start + offset, out);
      };
      const absl::StatusOr<Digest> hash = Copy(cached.bytes, read, draft.file, draft.end);
      if (absl::IsResourceExhausted(hash.status())) return hash.status();
      if (!hash.ok() || *hash != cached.hash) continue;
      draft.entries.emplace(
          digest,
          CachedBytes{
              .file = nullptr, .offset = draft.end, .bytes = cached.bytes, .hash = cached.hash});
      draft.end = PageAfter(draft.end + cached.bytes);
    }
  }
  flatbuffers::FlatBufferBuilder builder;
  std::vector<wire::CachedTensor> tensors;
  tensors.reserve(draft.entries.size());
  for (const auto& [digest, cached] : draft.entries) {
    tensors.emplace_back(digest.high, digest.low, cached.offset, cached.bytes, cached.hash.high,
                         cached.hash.low);
  }
  wire::FinishCacheIndexBuffer(
      builder, wire::CreateCacheIndex(builder, builder.CreateVectorOfStructs(tensors)));
  const absl::string_view index(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                                builder.GetSize());
  NPUBANK_RETURN_IF_ERROR(draft.file.WriteAt(draft.end, index));
  NPUBANK_RETURN_IF_ERROR(draft.file.WriteAt(0, EncodeSeal(kCacheFile, draft.end, index)));
  return draft.file.Commit();
}

CacheReport CacheFile::Report() const {
  MutexLock lock(mutex_);
  CacheReport report;
  report.entries = entries_.size();
  report.unsaved = draft_ == nullptr ? 0 : draft_->entries.size();
  report.problems = problems_;
  return report;
}

}  // namespace npubank
