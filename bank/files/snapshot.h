// BankSnapshot: everything the bank knows at one moment, as a value and as a file. The device's
// peak and the process's live source bytes are not the bank's: they are read right after it.
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
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/lazy_tensor/base/file_seal.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank {

inline constexpr FileKind kSnapshotFile{
    .magic = "NPUBSNAP", .version = 2, .words = "bank snapshot"};

struct TensorSnapshot {
  Uid uid;
  Digest digest;
  std::string name;      // the first it was registered under
  std::string type;      // "F16[768,768]"
  std::string state;     // residency, in words: "resident"
  std::string recipe;    // in words; kept after detaching
  std::string strategy;  // of its device memory; empty when not resident
  uint64_t bytes = 0;
  uint64_t device_bytes = 0;
  uint64_t device_address = 0;
  uint64_t source_bytes = 0;  // that its recipe still holds
  uint64_t leases = 0;
  uint64_t hits = 0;
  double evaluation_seconds = 0;
  std::vector<std::string> owners;
  std::string why_held;  // why source bytes are still held; empty when none are
};

struct BankSnapshot {
  std::vector<TensorSnapshot> tensors;  // in registration order
  std::vector<std::string> owners;
  bool keeps_unowned = false;  // tensors that nobody owns stay on the device
  uint64_t unique_bytes = 0;
  uint64_t device_bytes = 0;
  uint64_t device_peak_bytes = 0;
  uint64_t live_source_bytes = 0;  // of the process
  uint64_t shared_bytes_saved = 0;
  uint64_t registrations = 0;
  uint64_t hits = 0;
};

std::string EncodeSnapshot(const BankSnapshot& snapshot);
// Its parts take at most `most_bytes` of memory, and at most 64 times what the file does.
absl::StatusOr<BankSnapshot> DecodeSnapshot(absl::string_view file,
                                            uint64_t most_bytes = uint64_t{1} << 30);
absl::Status WriteSnapshot(const BankSnapshot& snapshot, const std::string& path);
absl::StatusOr<BankSnapshot> ReadSnapshot(const std::string& path);

}  // namespace npubank

#endif  // NPUBANK_BANK_FILES_SNAPSHOT_H_
