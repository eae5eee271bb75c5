#include "npubank/bank/files/cache_file.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/files/cache_generated.h"
#include "npubank/bank/loading/content.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/files/atomic_file.h"
#include "npubank/lazy_tensor/base/files/file_lock.h"
#include "npubank/lazy_tensor/base/flatbuffer.h"
#include "npubank/lazy_tensor/base/range.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank {
namespace {

constexpr uint64_t kPiece = 1 << 20;
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;
constexpr size_t kMaxProblems = 100;  // a full disk would fill the report
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 62;

uint64_t PageAfter(uint64_t offset) { return AlignUp(offset, CacheFile::kAlignment); }

absl::string_view AsText(absl::Span<const std::byte> bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::StatusOr<std::string> ReadText(const Source& file, uint64_t offset, uint64_t size) {
  std::string text(size, '\0');
  NPUBANK_RETURN_IF_ERROR(
      file.Read(offset, absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  return text;
}

// Writes what comes and returns its hash.
absl::StatusOr<Digest> Copy(uint64_t bytes, CacheFile::NextBytes next, AtomicFile& to,
                            uint64_t offset) {
  ContentHash hash;
  for (uint64_t done = 0; done < bytes;) {
    NPUBANK_ASSIGN_OR_RETURN(absl::Span<const std::byte> piece, next(done));
    if (piece.empty()) return absl::InternalError("a tensor gives no bytes");
    piece = piece.first(std::min<uint64_t>(piece.size(), bytes - done));
    hash.Add(piece);
    NPUBANK_RETURN_IF_ERROR(to.WriteAt(offset + done, AsText(piece)));
    done += piece.size();
  }
  return hash.Finish();
}

// What `read` gives, a piece at a time, in memory of its own.
class InPieces {
 public:
  InPieces(uint64_t bytes, CacheFile::ReadBytes read)
      : bytes_(bytes), read_(read), room_(std::min(bytes, kPiece)) {}

  absl::StatusOr<absl::Span<const std::byte>> operator()(uint64_t offset) const {
    const auto piece = absl::MakeSpan(room_).first(std::min(kPiece, bytes_ - offset));
    NPUBANK_RETURN_IF_ERROR(read_(offset, piece));
    return piece;
  }

 private:
  const uint64_t bytes_;
  const CacheFile::ReadBytes read_;
  mutable std::vector<std::byte> room_;
};

// A file that is still being written: what is there can be read, and goes on to be when the file
// is renamed or removed. Nothing maps it: its size and mtime are no identity yet.
class DraftSource final : public Source {
 public:
  explicit DraftSource(std::shared_ptr<const AtomicFile> file)
      : Source("unsaved weights cache", NextIdentity(), kMaxFileBytes), file_(std::move(file)) {}

  bool persistent() const override { return false; }
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override {
    return file_->ReadAt(offset, out);
  }
  absl::StatusOr<absl::Span<const std::byte>> View(uint64_t, uint64_t) const override {
    return absl::FailedPreconditionError(absl::StrCat("'", name(), "' is read, not mapped"));
  }
  void Release(uint64_t, uint64_t) const override {}

 private:
  static Digest NextIdentity() {
    static std::atomic<int64_t> number = 0;
    return DigestBuilder("draft of a cache").Add(++number).Finish();
  }

  const std::shared_ptr<const AtomicFile> file_;
};

absl::Status Corrupt(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("corrupt ", kCacheFile.description, ": ", what));
}

}  // namespace

// A file that is being written. Guarded by the cache's mutex, but for the writing itself: each
// adder has a range of its own.
struct CacheFile::Draft {
  Draft(AtomicFile opened, const std::string& path)
      : live("unsaved draft of cache", path),
        file(std::make_shared<AtomicFile>(std::move(opened))),
        source(std::make_shared<DraftSource>(file)) {}
  const LiveObject live;
  const std::shared_ptr<AtomicFile> file;
  const std::shared_ptr<Source> source;  // the same
  uint64_t end = kAlignment;             // the seal has the first page
  std::set<Digest> adding;
  CacheEntries entries;
};

Digest CacheKey(const Digest& recipe, const Digest& stamp) {
  return DigestBuilder("cached").Add(recipe).Add(stamp).Finish();
}

absl::Status ReadPayload(const CachedBytes& cached, uint64_t offset, absl::Span<std::byte> out) {
  const absl::Status status = cached.file->Read(cached.offset + offset, out);
  return status.ok() ? status : absl::DataLossError(status.message());
}

absl::Status CheckPayload(const CachedBytes& cached) {
  ContentHash hash;
  std::vector<std::byte> piece(std::min(cached.bytes, kPiece));
  for (uint64_t done = 0; done < cached.bytes; done += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), cached.bytes - done));
    NPUBANK_RETURN_IF_ERROR(ReadPayload(cached, done, absl::MakeSpan(piece)));
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
  NPUBANK_ASSIGN_OR_RETURN(
      const auto root, FlatbufferRoot<wire::CacheIndex>::Open(index, wire::CacheIndexIdentifier(),
                                                              kCacheFile.description));
  CacheEntries entries;
  const auto* tensors = root->tensors();
  for (uint32_t i = 0; i < SizeOf(tensors); ++i) {
    // Not where it lies: the verifier does not see to it that a vector's numbers are aligned.
    wire::CachedTensor tensor;
    std::memcpy(&tensor, tensors->Data() + i * sizeof(tensor), sizeof(tensor));
    const CachedBytes cached{.file = file,
                             .offset = tensor.offset(),
                             .bytes = tensor.bytes(),
                             .hash = {tensor.hash_high(), tensor.hash_low()},
                             .last_used = tensor.last_used()};
    if (cached.bytes == 0 || cached.offset < CacheFile::kAlignment ||
        cached.offset % CacheFile::kAlignment != 0 ||
        !RangeFits(cached.offset, cached.bytes, seal.offset)) {
      return Corrupt(absl::StrCat("a payload of ", cached.bytes, " bytes at ", cached.offset,
                                  " does not lie between its seal and its index"));
    }
    const Digest digest{tensor.digest_high(), tensor.digest_low()};
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
  used_.insert(digest);
  return found->second;
}

void CacheFile::Distrust(const Digest& digest, const absl::Status& why) {
  CachedBytes dropped;  // may close the file: after the lock
  MutexLock lock(mutex_);
  const auto found = entries_.find(digest);
  if (found == entries_.end()) return;
  dropped = std::move(found->second);
  entries_.erase(found);
  if (draft_ != nullptr) draft_->entries.erase(digest);
  problems_.push_back(std::string(why.message()));
}

absl::StatusOr<std::shared_ptr<CacheFile::Draft>> CacheFile::BeginAdding(const Digest& digest,
                                                                         CachedBytes& to) {
  std::shared_ptr<Draft> fresh;  // dropped after the lock when another thread was faster
  while (true) {
    {
      MutexLock lock(mutex_);
      const auto found = entries_.find(digest);
      if (found != entries_.end() && found->second.bytes == to.bytes) return nullptr;
      if (draft_ == nullptr) draft_ = std::move(fresh);
      if (draft_ != nullptr) {
        if (to.bytes > kMaxFileBytes - draft_->end)
          return absl::ResourceExhaustedError("too large");
        if (!Fits(draft_->end + to.bytes, draft_->entries.size() + draft_->adding.size() + 1)) {
          return absl::ResourceExhaustedError(absl::StrCat(
              "'", options_.path, "' is full: its limit is ", options_.limit_bytes, " bytes"));
        }
        if (!draft_->adding.insert(digest).second) return nullptr;
        to.file = draft_->source;
        to.offset = draft_->end;
        draft_->end = PageAfter(draft_->end + to.bytes);
        return draft_;
      }
    }
    NPUBANK_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(options_.path));
    if (options_.write_directly) file.WriteDirectly();
    fresh = std::make_shared<Draft>(std::move(file), options_.path);
  }
}

void CacheFile::EndAdding(Draft& draft, const Digest& digest, const CachedBytes* added) {
  CachedBytes replaced;  // may close a file: after the lock
  MutexLock lock(mutex_);
  draft.adding.erase(digest);
  if (added != nullptr) {
    draft.entries[digest] = *added;
    replaced = std::exchange(entries_[digest], *added);
  }
  changed_.NotifyAll();
}

absl::Status CacheFile::Add(const Digest& digest, uint64_t bytes, ReadBytes read) {
  const InPieces pieces(bytes, read);
  return Add(digest, bytes, NextBytes(pieces));
}

absl::Status CacheFile::Add(const Digest& digest, uint64_t bytes, NextBytes next) {
  if (bytes == 0) return absl::OkStatus();
  CachedBytes added{.file = nullptr, .offset = 0, .bytes = bytes, .hash = {}};
  const absl::StatusOr<std::shared_ptr<Draft>> draft = BeginAdding(digest, added);
  if (draft.ok() && *draft == nullptr) return absl::OkStatus();
  absl::Status status = draft.status();
  if (draft.ok()) {
    const absl::StatusOr<Digest> hash = Copy(bytes, next, *(*draft)->file, added.offset);
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

// Whether a file that ends there, with an index of so many entries behind it, is within the limit.
bool CacheFile::Fits(uint64_t end, size_t entries) const {
  constexpr uint64_t kIndexHead = 64;
  if (options_.limit_bytes == 0) return true;
  const uint64_t index = kIndexHead + entries * sizeof(wire::CachedTensor);
  return index <= options_.limit_bytes && PageAfter(end) <= options_.limit_bytes - index;
}

// Whether another entry than before would be the next to go, or one has to go now.
bool CacheFile::OrderChanged() const {
  if (options_.limit_bytes == 0 || entries_.empty()) return false;
  uint64_t latest = 0, end = 0;
  for (const auto& [digest, cached] : entries_) {
    latest = std::max(latest, cached.last_used);
    end = std::max(end, cached.offset + cached.bytes);
  }
  if (!Fits(end, entries_.size())) return true;
  for (const auto& [digest, cached] : entries_) {
    if (cached.last_used < latest && used_.contains(digest)) return true;
  }
  return false;
}

absl::StatusOr<std::shared_ptr<CacheFile::Draft>> CacheFile::TakeDraft() {
  std::shared_ptr<Draft> draft;
  {
    MutexLock lock(mutex_);
    draft.swap(draft_);
    while (saving_ || (draft != nullptr && !draft->adding.empty())) changed_.Wait(mutex_);
    const bool added = draft != nullptr && !draft->entries.empty();
    if (!added && !OrderChanged()) return nullptr;
    saving_ = true;
  }
  if (draft != nullptr) return draft;
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(options_.path);
  if (file.ok()) return std::make_shared<Draft>(*std::move(file), options_.path);
  MutexLock lock(mutex_);
  saving_ = false;
  changed_.NotifyAll();
  return file.status();
}

absl::Status CacheFile::Save() {
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Draft> draft, TakeDraft());
  if (draft == nullptr) return absl::OkStatus();
  absl::StatusOr<CacheEntries> saved = WriteAndOpen(*draft);
  MutexLock lock(mutex_);
  saving_ = false;
  changed_.NotifyAll();
  // What was in the draft is found in the file from now on, or, when that failed, no more.
  std::erase_if(entries_, [&](const auto& entry) { return entry.second.file == draft->source; });
  if (!saved.ok()) return saved.status();
  for (const auto& [digest, cached] : entries_) {  // in later drafts
    if (!cached.file->persistent()) saved->insert_or_assign(digest, cached);
  }
  entries_.swap(*saved);
  return absl::OkStatus();
}

absl::StatusOr<FileLock> CacheFile::LockForSaving() const {
  NPUBANK_ASSIGN_OR_RETURN(const std::string file, ReplaceableFile(options_.path));
  const auto tell = [this] {
    if (!options_.on_wait) return;
    options_.on_wait(absl::StrCat("waiting for another process that saves '", options_.path, "'"));
  };
  return FileLock::Acquire(absl::StrCat(file, ".lock"),
                           {.limit = options_.save_patience, .on_wait = tell});
}

absl::StatusOr<CacheEntries> CacheFile::WriteAndOpen(Draft& draft) const {
  // From reading the old file to renaming the new one. Without it the worst is that one of two
  // wins, but not while another is known to be at it.
  const absl::StatusOr<FileLock> lock = LockForSaving();
  if (absl::IsDeadlineExceeded(lock.status())) {
    return Annotate(lock.status(), "the weights cache is not saved");
  }
  NPUBANK_RETURN_IF_ERROR(Annotate(Write(draft), "saving the weights cache"));
  return ReadFile();
}

// What was used last first, as far as there is room, unless it was damaged.
absl::Status CacheFile::CopyOld(CacheEntries old, uint64_t save, Draft& draft) const {
  {
    MutexLock lock(mutex_);
    for (auto& [digest, cached] : old) {
      if (used_.contains(digest)) cached.last_used = save;
    }
  }
  std::vector<std::pair<Digest, CachedBytes>> latest_first(old.begin(), old.end());
  absl::c_stable_sort(latest_first, [](const auto& a, const auto& b) {
    return a.second.last_used > b.second.last_used;
  });
  for (const auto& [digest, cached] : latest_first) {
    if (draft.entries.count(digest) > 0) continue;
    if (!Fits(draft.end + cached.bytes, draft.entries.size() + 1)) continue;
    absl::Status readable;
    const auto read = [&readable, &from = cached](uint64_t offset, absl::Span<std::byte> out) {
      return readable = ReadPayload(from, offset, out);
    };
    const InPieces pieces(cached.bytes, read);
    const absl::StatusOr<Digest> hash = Copy(cached.bytes, pieces, *draft.file, draft.end);
    if (!readable.ok()) continue;
    NPUBANK_RETURN_IF_ERROR(hash.status());  // the new file's
    if (*hash != cached.hash) continue;
    CachedBytes& copy = draft.entries[digest];
    copy = cached;
    copy.file = nullptr;
    copy.offset = draft.end;
    draft.end = PageAfter(draft.end + cached.bytes);
  }
  return absl::OkStatus();
}

// Nobody adds to the draft any more. What the file has by now, from whichever process, goes along.
absl::Status CacheFile::Write(Draft& draft) const {
  CacheEntries old;
  if (absl::StatusOr<CacheEntries> read = ReadFile(); read.ok()) old = *std::move(read);
  uint64_t save = 0;
  for (const auto& [digest, cached] : old) save = std::max(save, cached.last_used);
  if (save < UINT64_MAX) ++save;
  for (auto& [digest, added] : draft.entries) added.last_used = save;
  NPUBANK_RETURN_IF_ERROR(CopyOld(std::move(old), save, draft));
  flatbuffers::FlatBufferBuilder builder;
  std::vector<wire::CachedTensor> tensors;
  tensors.reserve(draft.entries.size());
  for (const auto& [digest, cached] : draft.entries) {
    tensors.emplace_back(digest.high, digest.low, cached.offset, cached.bytes, cached.hash.high,
                         cached.hash.low, cached.last_used);
  }
  wire::FinishCacheIndexBuffer(
      builder, wire::CreateCacheIndex(builder, builder.CreateVectorOfStructs(tensors)));
  const absl::string_view index(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                                builder.GetSize());
  // A payload that was left out may lie behind `end`, and the index ends the file.
  const uint64_t at = std::max(draft.end, draft.file->size());
  NPUBANK_RETURN_IF_ERROR(draft.file->WriteAt(at, index));
  NPUBANK_RETURN_IF_ERROR(draft.file->WriteAt(0, EncodeSeal(kCacheFile, at, index)));
  return draft.file->Commit();
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
