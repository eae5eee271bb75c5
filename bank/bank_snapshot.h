// BankSnapshot: everything the bank knows at one moment, as a value. The device's peak and the
// process's live source bytes are not the bank's: they are read right after it.
//
//   BankSnapshot snapshot = bank->Snapshot();
//   for (const TensorSnapshot& tensor : snapshot.tensors) ... tensor.name, tensor.state ...
//
// files/snapshot.h writes and reads it.
#ifndef NPUBANK_BANK_BANK_SNAPSHOT_H_
#define NPUBANK_BANK_BANK_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/digest.h"

namespace npubank {

struct TensorSnapshot {
  Uid uid;
  Digest digest;
  std::string name;      // the first it was registered under
  std::string type;      // "F16[768,768]"
  std::string state;     // residency: "resident"
  std::string recipe;    // its description; kept after detaching
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
  // Where the bytes on the device came from: "stored" (copied or imported as they are in the file),
  // "misaligned" (copied only because they do not lie where the device takes arguments), "transformed",
  // "cache", "service" (the pages of a bank that serves several processes), "adopted" (the memory of an
  // earlier process); empty when not resident.
  std::string origin;
  // Of the stored tensors it was made of; 0 when they were not looked at.
  uint64_t stored_bytes = 0;
  // What its owners ask for together, beyond what the device gives everything (MemoryHints); 0: nothing.
  uint64_t alignment = 0;
  uint64_t pool = 0;
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

}  // namespace npubank

#endif  // NPUBANK_BANK_BANK_SNAPSHOT_H_
