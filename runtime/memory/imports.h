// Imports: files whose pages are device memory, each imported once however many tensors use it.
//
//   Imports imports(device, /*read_ahead=*/true, notice);
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<const Imports::File> file, imports.Acquire(source));
//   file->bytes().data() + offset;     // valid for the device while `file` lives
//
// The whole mapping of a file is imported, because a page can be imported only once and
// neighbouring tensors share pages. Sources with one identity share one import; the first one's
// mapping is kept alive by it, without counting as held by a recipe (retention.h). The last user
// gone, the pages are given back to the system.
//
// A driver may list the extension and yet refuse a file, as a kernel without it, or with too few
// addresses, does. It is not asked again for that file until Retry, and `notice` is told of the
// first refusal.
//
// Read-ahead: a thread of its own asks the system for the pages that tensors lie in, in the order
// of WillNeed, so that the first inference does not wait for the disk. What is queued is dropped
// with the file's last user. Threads: any; two that want a new file at once share one import, and
// no lock is held over it. Errors: FailedPrecondition when this source's pages cannot be the
// device's (a buffer, a file that is not mapped, one that the system will not map or pin): copy it
// instead; Unimplemented when no file's can; DataLoss when the file has changed.
#ifndef NPUBANK_RUNTIME_MEMORY_IMPORTS_H_
#define NPUBANK_RUNTIME_MEMORY_IMPORTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/runtime/level_zero/device.h"
#include "npubank/runtime/memory/read_ahead.h"

namespace npubank {

class Imports {
 public:
  class File {
   public:
    virtual ~File() = default;
    const Source& source() const { return *source_; }
    absl::Span<const std::byte> bytes() const { return bytes_; }

   protected:
    explicit File(std::shared_ptr<Source> source) : source_(std::move(source)) {}
    const std::shared_ptr<Source> source_;
    absl::Span<const std::byte> bytes_;
  };

  using Notice = std::function<void(absl::string_view)>;
  Imports(std::shared_ptr<level_zero::Device> device, bool read_ahead, Notice notice);

  // Whether the driver says that it can import at all.
  bool supported() const { return supported_; }

  absl::StatusOr<std::shared_ptr<const File>> Acquire(std::shared_ptr<Source> source);
  // Files that were refused may be asked for again.
  void Retry();
  // The device will read these bytes of an acquired file soon.
  void WillNeed(absl::Span<const std::byte> bytes);

 private:
  struct Table;
  class ImportedFile;

  const std::shared_ptr<level_zero::Device> device_;
  const bool supported_;
  const std::shared_ptr<Table> table_;
  const std::shared_ptr<ReadAhead> read_ahead_;  // null: off
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_IMPORTS_H_
