// CacheFile: evaluated tensors in a file, so that the next process loads them without transforming
// anything.
//
//   std::shared_ptr<CacheFile> cache = CacheFile::Open({.path = "weights.cache"});
//   std::shared_ptr<Bank> bank = Bank::Create(device, {.cache = cache});
//   ... load models ...
//   NPUBANK_RETURN_IF_ERROR(cache->Save());
//
// The bank looks here before it transforms, and adds what it had to transform. A tensor is found by
// CacheKey: its recipe's digest, which includes the identity of every source file, and its stamp, which
// has samples of what is in them; so a checkpoint that changed never hits, also where the file system gives
// another one the same identity; recipes over buffers in memory are not kept, nor are stored tensors that need
// no transformation.
//
//   | seal (file_seal.h) | payload | payload ... | index (cache.fbs) |     payloads on 4096 bytes
//
// A cache can be wrong in any way and costs only time: a file that is missing, cut, of another
// version or not whole is an empty cache; a payload whose hash does not fit is evaluated again.
// Report() says what was wrong. Payloads are checked each time they are copied to the device, and
// before they are used in place.
//
// What was added goes to a temporary file at once, so that no copy is held in memory, and is found
// there from then on: a tensor that is evicted and comes back in the same run is read, not
// transformed, and is written once. Save writes what the file has by then, its own and other
// processes', behind it, and renames; a crash before that leaves the old file. Files are never
// changed in place, so any number of processes may have one open. Of two that save at the same moment
// one waits for the other, says so (CacheOptions::on_wait) and takes along what it wrote: a lock on
// "<path>.lock", which is there only meanwhile; one that a killed process left is in nobody's way, and
// gone after the next Save.
//
// With a limit (CacheOptions::limit_bytes) the file never grows over it: a Save keeps what this run used or
// added and, of the rest, what was used in the latest runs, as far as there is room; an Add for which a
// run's own entries leave none is ResourceExhausted. Which run used what is kept in the file, so that
// a Save of a run which added nothing writes it again where it used other entries than the run before.
//
// A Save that has waited for `save_patience` gives up: DeadlineExceeded. Where the file
// system has no locks the later one wins. A path that is a link stays one. Without a
// limit entries of sources that are gone stay: delete the file to be rid of them.
//
// Threads: every method, from any thread. No lock is held over I/O.
// Errors of Save and Add: those of AtomicFile; the old file is as it was, and what was added is
// forgotten.
#ifndef NPUBANK_BANK_FILES_CACHE_FILE_H_
#define NPUBANK_BANK_FILES_CACHE_FILE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/files/file_lock.h"
#include "npubank/lazy_tensor/base/files/file_seal.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

// The version also stands for what transformations compute: it changes when their results do.
inline constexpr FileKind kCacheFile{.magic = "NPUBCACH", .version = 3, .description = "weights cache"};

// What a tensor is found by. Here "digest" is always this.
Digest CacheKey(const Digest& recipe, const Digest& stamp);

struct CacheOptions {
  std::string path;
  // Of the file, its index included; what was used longest ago goes first. 0: none.
  uint64_t limit_bytes = 0;
  // AtomicFile::WriteDirectly: for who adds by megabytes, and reads none of it soon.
  bool write_directly = false;
  bool verify_at_open = false;  // read and check every payload at once instead of when it is used
  // How long a Save waits for another process that is saving the same file, and who is told that it
  // does, once, on the saving thread; null: nobody.
  std::chrono::milliseconds save_patience = std::chrono::seconds(30);
  std::function<void(absl::string_view message)> on_wait = nullptr;
};

struct CacheReport {
  uint64_t entries = 0;               // that Find finds; good as far as is known
  uint64_t unsaved = 0;               // of those, added since the last Save
  std::vector<std::string> problems;  // a line each; the file or the tensor was not used
};

// Where an evaluated tensor lies.
struct CachedBytes {
  std::shared_ptr<Source> file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  Digest hash;
  uint64_t last_used = 0;  // saves are numbered
};

// A part of it. DataLoss also when the system fails to read: the device's errors are others, and
// what a cache has lost can be evaluated.
absl::Status ReadPayload(const CachedBytes& cached, uint64_t offset, absl::Span<std::byte> out);
// Reads all of it and compares: DataLoss when it is not what was written.
absl::Status CheckPayload(const CachedBytes& cached);

// Every tensor of a cache file, all of them within its bounds; the payloads are not read.
// InvalidArgument for what is not a cache file, of another version, or not whole.
using CacheEntries = std::map<Digest, CachedBytes>;
absl::StatusOr<CacheEntries> ReadCacheIndex(const std::shared_ptr<Source>& file);

class CacheFile {
 public:
  static constexpr uint64_t kAlignment = 4096;  // what importing needs

  static std::shared_ptr<CacheFile> Open(CacheOptions options);
  ~CacheFile();
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;

  std::optional<CachedBytes> Find(const Digest& digest, uint64_t bytes) const;
  // What Find returned turned out not to be usable; it is not found again.
  void Distrust(const Digest& digest, const absl::Status& why);

  // `read` gives the tensor's bytes [offset, offset + out.size()), in ascending order.
  using ReadBytes = absl::FunctionRef<absl::Status(uint64_t offset, absl::Span<std::byte> out)>;
  // Does nothing when it is found already or is just being added.
  absl::Status Add(const Digest& digest, uint64_t bytes, ReadBytes read);
  // The same of who has bytes in memory: `next` gives those from `offset` on, as many as it likes, at least one; they stay
  // as they are until it is called again.
  using NextBytes = absl::FunctionRef<absl::StatusOr<absl::Span<const std::byte>>(uint64_t offset)>;
  absl::Status Add(const Digest& digest, uint64_t bytes, NextBytes next);
  // Does nothing when nothing was added, nor, of a file with a limit, used in another order.
  absl::Status Save();

  CacheReport Report() const;

 private:
  struct Draft;
  explicit CacheFile(CacheOptions options);

  absl::StatusOr<CacheEntries> ReadFile() const;
  // Where to write it; null when there is nothing to do.
  absl::StatusOr<std::shared_ptr<Draft>> BeginAdding(const Digest& digest, CachedBytes& to);
  void EndAdding(Draft& draft, const Digest& digest, const CachedBytes* added);
  absl::StatusOr<FileLock> LockForSaving() const;
  // What is to be written; null when nothing is.
  absl::StatusOr<std::shared_ptr<Draft>> TakeDraft();
  bool OrderChanged() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Fits(uint64_t end, size_t entries) const;
  absl::StatusOr<CacheEntries> WriteAndOpen(Draft& draft) const;
  absl::Status Write(Draft& draft) const;
  absl::Status CopyOld(CacheEntries old, uint64_t save, Draft& draft) const;

  const CacheOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  CacheEntries entries_ ABSL_GUARDED_BY(mutex_);           // of the file and of what is added
  mutable std::set<Digest> used_ ABSL_GUARDED_BY(mutex_);  // found since it was opened
  std::vector<std::string> problems_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Draft> draft_ ABSL_GUARDED_BY(mutex_);  // null until something is added
  bool saving_ ABSL_GUARDED_BY(mutex_) = false;           // an earlier draft
};

}  // namespace npubank

#endif  // NPUBANK_BANK_FILES_CACHE_FILE_H_
