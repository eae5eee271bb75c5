// SourceOpener: how a file of stored tensors is opened, and opened again: by its path, as bytes that
// are held in memory, or as whatever an embedder or a service brings. Nobody above it opens a path.
//
//   std::shared_ptr<SourceOpener> opener = SourceOpener::Path("model.safetensors");
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> file, opener->Open());
//
// Each Open may give a source of another identity, if the file is another one by then: who wants the
// same bytes again compares (source_index.h does). Threads: Open from any thread, several at once;
// it may be slow and is never called under a lock. Errors: those of Source::OpenFile, or of whoever
// implements it; they name the file.
#ifndef NPUBANK_LAZY_TENSOR_SOURCES_SOURCE_OPENER_H_
#define NPUBANK_LAZY_TENSOR_SOURCES_SOURCE_OPENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

class SourceOpener {
 public:
  virtual ~SourceOpener() = default;
  virtual absl::StatusOr<std::shared_ptr<Source>> Open() = 0;

  static std::unique_ptr<SourceOpener> Path(std::string path, FileAccess access = FileAccess::kMap);
  // Gives the same source each time, and holds it: bytes in memory, which nobody could open again.
  static std::unique_ptr<SourceOpener> Held(std::shared_ptr<Source> source);
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_SOURCES_SOURCE_OPENER_H_
