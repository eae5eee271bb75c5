// ImportedFiles: the files whose pages some weights are, asked before a run whether they still are
// what was imported.
//
//   ImportedFiles files;
//   for (const Lease& lease : leases) files.Add(lease.file());
//   NPUBANK_RETURN_IF_ERROR(files.CheckUnchanged("the model 'stories'"));   // before each run
//
// What is promised: a file that was truncated or written to before the call is DataLoss, naming the
// file and the model; the leases are worth nothing then. Drop them and load the model again: its
// files have other identities now, and are imported anew beside what is still there. What is not
// promised: a file that changes while a run reads it gives wrong numbers in that run (the next call
// says so), and a change that leaves size, mtime and what Source::CheckUnchanged looks at as they
// were is not seen. Whoever must not depend on that copies the weights instead of importing them.
// Cost: one fstat per file, however many weights lie in it. Ownership: refers to the files; they
// live as long as the leases, or allocations, whose ranges were added. Threads: one at a time.
#ifndef NPUBANK_RUNTIME_MEMORY_IMPORTED_FILES_H_
#define NPUBANK_RUNTIME_MEMORY_IMPORTED_FILES_H_

#include <cstddef>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "npubank/bank/device_memory.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank {

class ImportedFiles {
 public:
  // Null, or a range of a source that nobody knows: nothing to check.
  void Add(const FileRange* range);
  size_t size() const { return files_.size(); }
  absl::Status CheckUnchanged(absl::string_view model) const;

 private:
  std::map<Digest, const Source*> files_;  // by identity
};

}  // namespace npubank

#endif  // NPUBANK_RUNTIME_MEMORY_IMPORTED_FILES_H_
