// SourceIndex: the stored tensors of a model by name: what each is, where it lies, and the files, which
// can be closed and are opened again when somebody wants bytes.
//
//   auto index = std::make_shared<SourceIndex>("model.safetensors");
//   NPUBANK_ASSIGN_OR_RETURN(uint32_t file, index->AddFile(SourceOpener::Path(path)));
//   NPUBANK_RETURN_IF_ERROR(index->Add({"lm_head.weight", type, file, offset}));
//   ...
//   const StoredTensor* head = index->Find("lm_head.weight");   // null when there is none
//   for (const StoredTensor& tensor : index->tensors()) ...     // all, with type and shape
//   SourceIndex::Use use(index);                                // files stay open while it lives
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, index->Open(head->file));
//
// The one finder: a format's reader appends to an index (formats/open_index.h opens whole models), recipes are
// decoded against it (recipe_codec.h), and a bank brings evicted weights back through it. A file is
// opened once for all who use it: it stays open while anybody holds its Source, or while a Use of the
// index lives. Closed, it costs its names and offsets, no descriptor.
//
// Two phases: it is filled by one thread, then shared; Add and AddFile after that are a mistake of the program.
// Threads: everything else from any thread; nothing is opened or closed under a lock, and of several threads
// that want a closed file one opens it and the others wait. Errors: InvalidArgument for a tensor whose name is
// there already or that lies beyond its file; those of the opener; DataLoss when a file that is opened again is
// not the one it was (its identity, source.h, is another), after which every Open fails until it is that again.
// Cost: Find is one hash look-up; Open one mutex while the file is open.
#ifndef NPUBANK_LAZY_TENSOR_SOURCES_SOURCE_INDEX_H_
#define NPUBANK_LAZY_TENSOR_SOURCES_SOURCE_INDEX_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/kernels/blocks.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/lazy_tensor/sources/source_opener.h"

namespace npubank {

struct StoredTensor {
  std::string name;
  TensorType type;  // of blocks: rows of bytes
  uint32_t file = 0;
  uint64_t offset = 0;  // from the start of the file
  // How the bytes are numbers where they are not numbers themselves.
  std::optional<kernels::BlockFormat> blocks = std::nullopt;
};

class SourceIndex {
 public:
  // What is known of a file whether it is open or not.
  struct File {
    std::string name;  // the path, or the buffer's name
    Digest identity;
    Digest samples;  // what is checked beside it
    uint64_t size = 0;
    bool persistent = false;  // the identity means the same bytes in another process
  };

  // While one lives, files that were opened stay open.
  class Use {
   public:
    explicit Use(std::shared_ptr<const SourceIndex> index);  // of nothing when null
    Use(Use&& other) noexcept = default;
    Use& operator=(Use&&) = delete;
    ~Use();

   private:
    std::shared_ptr<const SourceIndex> index_;
  };

  // `listing` names all of it in messages: the file or folder that a user knows.
  explicit SourceIndex(std::string listing) : listing_(std::move(listing)) {}
  SourceIndex(const SourceIndex&) = delete;
  SourceIndex& operator=(const SourceIndex&) = delete;

  // Opens the file to learn its identity; its number.
  absl::StatusOr<uint32_t> AddFile(std::unique_ptr<SourceOpener> opener);
  absl::Status Add(StoredTensor tensor);

  const std::string& listing() const { return listing_; }
  // In the order they were added.
  const std::deque<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* Find(absl::string_view name) const;
  // As Find, but NotFound, naming the listing.
  absl::StatusOr<const StoredTensor*> Get(absl::string_view name) const;
  uint32_t file_count() const { return static_cast<uint32_t>(files_.size()); }
  const File& file(uint32_t number) const { return files_[number].facts; }

  absl::StatusOr<std::shared_ptr<Source>> Open(uint32_t file) const;
  // How often a file was opened since the index was made, AddFile included.
  uint64_t opens() const;

 private:
  struct Slot {
    File facts;
    std::unique_ptr<SourceOpener> opener;
    // Guarded by mutex_, which a struct cannot say of its owner's.
    std::weak_ptr<Source> open;
    std::shared_ptr<Source> kept;  // while there is a Use
    bool opening = false;
  };
  // The source if it is open, else null with the duty to open it.
  std::shared_ptr<Source> AwaitOpen(Slot& slot) const;
  void EndOpening(Slot& slot, std::shared_ptr<Source> source) const;

  const std::string listing_;
  const LiveObject live_{"index", listing_};
  std::deque<StoredTensor> tensors_;
  absl::flat_hash_map<absl::string_view, const StoredTensor*> by_name_;  // names in tensors_
  mutable std::deque<Slot> files_;
  mutable Mutex mutex_;
  mutable CondVar opened_;
  mutable uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable uint64_t opens_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_SOURCES_SOURCE_INDEX_H_
