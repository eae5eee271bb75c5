// AlignedMapping: memory of a descriptor, mapped where huge pages fit.
//
//   NPUBANK_ASSIGN_OR_RETURN(AlignedMapping mapping,
//                            AlignedMapping::Map(fd, 0, bytes, PROT_READ, "layers.0.wq"));
//   bool joined = mapping.Join();     // its pages are huge ones now, as far as they fill one
//   Use(mapping.bytes());
//
// The address is a multiple of kHugePage, as the system wants it of what it maps in huge pages: room
// for a little more is reserved, and the memory mapped over the part of it that will do.
//
// Ownership: unmapped when destroyed; the descriptor is the caller's and may be closed before. Threads:
// as any memory. Errors: ResourceExhausted when the system has no addresses to give; Unavailable with its
// words otherwise.
#ifndef NPUBANK_BANK_SERVICE_ALIGNED_MAPPING_H_
#define NPUBANK_BANK_SERVICE_ALIGNED_MAPPING_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace npubank::service {

class AlignedMapping {
 public:
  static constexpr uint64_t kHugePage = 2 << 20;

  // [offset, offset + bytes) of what is open, shared. `offset` must be a multiple of kHugePage, `bytes`
  // not 0; `name` is for errors.
  static absl::StatusOr<AlignedMapping> Map(int descriptor, uint64_t offset, uint64_t bytes,
                                            int protection, absl::string_view name);
  AlignedMapping(AlignedMapping&& other) noexcept
      : room_(std::exchange(other.room_, {})), bytes_(std::exchange(other.bytes_, {})) {}
  AlignedMapping& operator=(AlignedMapping&&) = delete;
  ~AlignedMapping();

  absl::Span<std::byte> bytes() const { return bytes_; }
  // Asks the system to make huge pages of all of it (MADV_COLLAPSE, since Linux 6.1). A stretch of which no
  // page is there yet is refused; of others it fills up what is missing. False: of some it has not.
  bool Join() const;

 private:
  AlignedMapping(absl::Span<std::byte> room, absl::Span<std::byte> bytes)
      : room_(room), bytes_(bytes) {}

  absl::Span<std::byte> room_;   // what is unmapped
  absl::Span<std::byte> bytes_;  // inside
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_ALIGNED_MAPPING_H_
