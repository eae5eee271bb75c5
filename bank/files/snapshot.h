// A BankSnapshot as a file.
//
//   NPUBANK_RETURN_IF_ERROR(WriteSnapshot(bank->Snapshot(), "run.bank"));
//   NPUBANK_ASSIGN_OR_RETURN(BankSnapshot snapshot, ReadSnapshot("run.bank"));
//
// The file is a seal (file_seal.h) and a flatbuffer (snapshot.fbs), written to a temporary name and
// renamed. A file with a byte changed or missing anywhere is refused, and so is one whose parts,
// each named many times, would take more memory than a file of its size can need.
// Errors: NotFound / PermissionDenied naming the file; InvalidArgument for one that is not a
// snapshot, of a version this program does not know, or corrupt.
#ifndef NPUBANK_BANK_FILES_SNAPSHOT_H_
#define NPUBANK_BANK_FILES_SNAPSHOT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/lazy_tensor/base/files/file_seal.h"

namespace npubank {

inline constexpr FileKind kSnapshotFile{
    .magic = "NPUBSNAP", .version = 2, .description = "bank snapshot"};

std::string EncodeSnapshot(const BankSnapshot& snapshot);
// Its parts take at most `most_bytes` of memory, and at most 64 times what the file does.
absl::StatusOr<BankSnapshot> DecodeSnapshot(absl::string_view file,
                                            uint64_t most_bytes = uint64_t{1} << 30);
absl::Status WriteSnapshot(const BankSnapshot& snapshot, const std::string& path);
absl::StatusOr<BankSnapshot> ReadSnapshot(const std::string& path);

}  // namespace npubank

#endif  // NPUBANK_BANK_FILES_SNAPSHOT_H_
