// MemoryLimit: how much memory this process may take before the system kills it.
//
//   const MemoryLimit limit = MemoryLimit::Find();
//   if (bytes > limit.Room()) return absl::ResourceExhaustedError(...);
//
// A control group with a limit (a container, a systemd unit with MemoryMax) refuses nothing: who
// touches a page too many is killed, whatever call did it. So the limits are read, of this
// process's group and of all that it lies in, version 1 and 2, and what is asked for is refused
// before. What a file's cached pages take of a group is room, since the system takes them first. The
// files are read anew by each Room: both the limit and what others of the group use may change.
//
// Never fails: where there is no group, or what the system says is not understood, there is no
// limit. Threads: any. Cost: Room about 10 us per group with a limit, 50 where it is nearly full.
#ifndef NPUBANK_BANK_SERVICE_MEMORY_LIMIT_H_
#define NPUBANK_BANK_SERVICE_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace npubank::service {

// A group's folder and which version's files are in it.
struct MemoryGroup {
  std::string folder;
  int version = 2;
};

// This process's group and those around it, innermost first: from the texts of /proc/self/cgroup
// and /proc/self/mountinfo. What is not understood is left out. At most kMostGroups.
inline constexpr size_t kMostGroups = 64;
std::vector<MemoryGroup> MemoryGroups(absl::string_view cgroup, absl::string_view mountinfo);

class MemoryLimit {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  // `root`: what the system's files lie in, for tests; empty is the system's own.
  static MemoryLimit Find(const std::string& root = "");

  // The smallest limit, and bytes until one is met; kNone where there is no limit.
  uint64_t Bytes() const;
  uint64_t Room() const;
  // What of `wanted` is to be had now, when a sixteenth of the limit is left for all else.
  uint64_t Within(uint64_t wanted) const;

 private:
  explicit MemoryLimit(std::vector<MemoryGroup> groups) : groups_(std::move(groups)) {}

  std::vector<MemoryGroup> groups_;
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_MEMORY_LIMIT_H_
