// DescriptorStore: who keeps a daemon's descriptors for the next one: its service manager.
//
//   NPUBANK_RETURN_IF_ERROR(store.Keep("s7", segment.descriptor()));
//   NPUBANK_RETURN_IF_ERROR(store.Barrier());      // it has it now, whatever happens to this process
//   NPUBANK_RETURN_IF_ERROR(store.Forget("s7"));
//
// A name is one descriptor's; a second Keep of the same name and file changes nothing. What is kept is
// handed to the next process under its name, and to no one else.
// Threads: one call at a time. Errors: Unavailable when it cannot be told; DeadlineExceeded when it does not
// read, or does not answer a Barrier, in time. Cost: Keep and Forget about 20 us; Barrier a round trip.
#ifndef NPUBANK_BANK_SERVICE_DAEMON_DESCRIPTOR_STORE_H_
#define NPUBANK_BANK_SERVICE_DAEMON_DESCRIPTOR_STORE_H_

#include <string>

#include "absl/status/status.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

namespace npubank::service {

class DescriptorStore {
 public:
  virtual ~DescriptorStore() = default;
  virtual absl::Status Keep(const std::string& name, int descriptor) = 0;
  virtual absl::Status Forget(const std::string& name) = 0;
  // Returns when all that was said before is done.
  virtual absl::Status Barrier() = 0;
};

// What one kept for an earlier process.
struct NamedDescriptor {
  std::string name;
  FileDescriptor file;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_DAEMON_DESCRIPTOR_STORE_H_
