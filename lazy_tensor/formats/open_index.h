// OpenIndex: the stored tensors of a model on disk, whatever its format and whatever network it is.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<SourceIndex> index, OpenIndex("folder"));
//   for (const StoredTensor& tensor : index->tensors()) ...
//
// A folder holds model.safetensors, or model.safetensors.index.json with its shards; a file is GGUF where
// it begins with "GGUF", safetensors otherwise. No config is needed. A new format is one function that
// appends to an index (safetensors.h, gguf.h) and a line here.
//
// Ownership: the index keeps files open only while a SourceIndex::Use of it lives. Threads: any.
// Cost: headers are read, no tensor. Errors: NotFound for a missing path or shard; InvalidArgument for
// whatever the files get wrong, naming file and tensor.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_OPEN_INDEX_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_OPEN_INDEX_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/formats/gguf.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/lazy_tensor/sources/source_index.h"

namespace npubank {

// An index that is open, and what its file says beside tensors.
struct OpenedIndex {
  std::shared_ptr<SourceIndex> index;
  SourceIndex::Use use;
  bool folder = false;
  std::optional<Gguf> gguf;  // of a GGUF file
};

absl::StatusOr<OpenedIndex> OpenIndex(const std::string& path,
                                      FileAccess access = FileAccess::kMap);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_OPEN_INDEX_H_
