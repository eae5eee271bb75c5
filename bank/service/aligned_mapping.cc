#include "npubank/bank/service/aligned_mapping.h"

#include <sys/mman.h>
#include <sys/types.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

#ifndef MADV_COLLAPSE  // since Linux 6.1
#define MADV_COLLAPSE 25
#endif

namespace npubank::service {

absl::StatusOr<AlignedMapping> AlignedMapping::Map(int descriptor, uint64_t offset, uint64_t bytes,
                                                   int protection, absl::string_view name) {
  const auto failed = [&] {
    const int error = errno;
    const absl::Status status = SystemError(error, "cannot map memory of", name);
    return error == ENOMEM ? absl::ResourceExhaustedError(status.message()) : status;
  };
  const uint64_t all = bytes + kHugePage;
  void* const room = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return failed();
  auto* const begin = static_cast<std::byte*>(room);
  const auto number = reinterpret_cast<uintptr_t>(room);
  std::byte* const place = begin + (AlignUp<uint64_t>(number, kHugePage) - number);
  AlignedMapping mapping({begin, all}, {place, bytes});
  if (mmap(place, bytes, protection, MAP_SHARED | MAP_FIXED, descriptor,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    return failed();
  }
  return mapping;
}

AlignedMapping::~AlignedMapping() {
  if (!room_.empty()) munmap(room_.data(), room_.size());
}

bool AlignedMapping::Join() const {
  const uint64_t whole = bytes_.size() / kHugePage * kHugePage;
  return whole == 0 || madvise(bytes_.data(), whole, MADV_COLLAPSE) == 0;
}

}  // namespace npubank::service
