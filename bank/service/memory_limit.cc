#include "npubank/bank/service/memory_limit.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

namespace npubank::service {
namespace {

constexpr size_t kMostText = 1 << 20;
constexpr uint64_t kNoLimit = uint64_t{1} << 62;  // version 1 says the largest multiple of a page

struct GroupFiles {
  const char* limit;
  const char* used;
  const char* inactive;
  const char* active;
};

const GroupFiles& FilesOf(int version) {
  static constexpr GroupFiles kFiles[] = {
      {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
       "total_active_file "},
      {"memory.max", "memory.current", "inactive_file ", "active_file "}};
  return kFiles[version - 1];
}

// A file of the system's has no size: read to its end.
std::string ReadText(const std::string& path) {
  const FileDescriptor file = FileDescriptor::Open(path, O_RDONLY);
  std::string text;
  char piece[4096];
  while (file.is_open() && text.size() < kMostText) {
    const auto got = ReadAt(file, path, text.size(),
                            absl::MakeSpan(reinterpret_cast<std::byte*>(piece), sizeof(piece)));
    if (!got.ok() || *got == 0) break;
    text.append(piece, *got);
  }
  return text;
}

// "max", nonsense, and a file that is not there are no number.
std::optional<uint64_t> ReadNumber(const std::string& path) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadText(path)), &number)) return std::nullopt;
  return number;
}

std::optional<uint64_t> LimitOf(const MemoryGroup& group) {
  const std::optional<uint64_t> limit =
      ReadNumber(absl::StrCat(group.folder, "/", FilesOf(group.version).limit));
  return limit.has_value() && *limit < kNoLimit ? limit : std::nullopt;
}

// Pages of files: the system takes them back before it kills anybody.
uint64_t CachedBytes(const MemoryGroup& group) {
  const GroupFiles& files = FilesOf(group.version);
  const std::string text = ReadText(absl::StrCat(group.folder, "/memory.stat"));
  uint64_t sum = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    uint64_t bytes = 0;
    const bool counts =
        absl::ConsumePrefix(&line, files.inactive) || absl::ConsumePrefix(&line, files.active);
    if (counts && absl::SimpleAtoi(line, &bytes)) sum += std::min(bytes, kNoLimit - sum);
  }
  return sum;
}

uint64_t RoomIn(const MemoryGroup& group) {
  const std::optional<uint64_t> limit = LimitOf(group);
  if (!limit.has_value()) return MemoryLimit::kNone;
  const uint64_t used =
      ReadNumber(absl::StrCat(group.folder, "/", FilesOf(group.version).used)).value_or(0);
  const uint64_t room = *limit - std::min(*limit, used);
  // The long file only where it may matter.
  if (room > *limit / 4) return room;
  const uint64_t cached = std::min(used, CachedBytes(group));
  return *limit - std::min(*limit, used - cached);
}

struct Mount {
  std::string root;   // which of the hierarchy's folders is seen
  std::string point;  // and where
};

// "36 35 98:0 ROOT POINT OPTIONS [MORE...] - TYPE DEVICE OPTIONS"
std::optional<Mount> FindMount(absl::string_view mountinfo, int version) {
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::vector<absl::string_view> mount = absl::StrSplit(halves.first, ' ');
    const std::vector<absl::string_view> type = absl::StrSplit(halves.second, ' ');
    if (mount.size() < 6 || type.size() < 3) continue;
    const std::vector<absl::string_view> options = absl::StrSplit(type[2], ',');
    const bool has_memory = std::find(options.begin(), options.end(), "memory") != options.end();
    if (version == 2 ? type[0] != "cgroup2" : type[0] != "cgroup" || !has_memory) continue;
    if (!absl::StartsWith(mount[3], "/") || !absl::StartsWith(mount[4], "/")) continue;
    return Mount{.root = std::string(mount[3]), .point = std::string(mount[4])};
  }
  return std::nullopt;
}

// "NUMBER:CONTROLLERS:PATH"; version 2 has number 0 and no controllers.
std::optional<std::string> FindPath(absl::string_view cgroup, int version) {
  for (const absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) continue;
    const std::vector<absl::string_view> names = absl::StrSplit(parts[1], ',');
    const bool ours = version == 2 ? parts[0] == "0" && parts[1].empty()
                                   : std::find(names.begin(), names.end(), "memory") != names.end();
    if (ours) return std::string(parts[2]);
  }
  return std::nullopt;
}

void AddGroups(const Mount& mount, absl::string_view path, int version,
               std::vector<MemoryGroup>& groups) {
  // What a container shows is a part of the hierarchy; what lies outside of it cannot be seen.
  const bool inside = mount.root == "/" || absl::ConsumePrefix(&path, mount.root);
  if (!inside || absl::StrContains(path, "..")) path = "";
  std::string below(absl::StripSuffix(path, "/"));
  while (groups.size() < kMostGroups) {
    groups.push_back({.folder = absl::StrCat(mount.point, below), .version = version});
    const size_t slash = below.rfind('/');
    if (slash == std::string::npos) return;
    below.resize(slash);
  }
}

}  // namespace

std::vector<MemoryGroup> MemoryGroups(absl::string_view cgroup, absl::string_view mountinfo) {
  std::vector<MemoryGroup> groups;
  for (const int version : {2, 1}) {
    const std::optional<std::string> path = FindPath(cgroup, version);
    const std::optional<Mount> mount = FindMount(mountinfo, version);
    if (path.has_value() && mount.has_value()) AddGroups(*mount, *path, version, groups);
  }
  return groups;
}

MemoryLimit MemoryLimit::Find(const std::string& root) {
  std::vector<MemoryGroup> groups =
      MemoryGroups(ReadText(absl::StrCat(root, "/proc/self/cgroup")),
                   ReadText(absl::StrCat(root, "/proc/self/mountinfo")));
  for (MemoryGroup& group : groups) group.folder = absl::StrCat(root, group.folder);
  return MemoryLimit(std::move(groups));
}

uint64_t MemoryLimit::Bytes() const {
  uint64_t least = kNone;
  for (const MemoryGroup& group : groups_) least = std::min(least, LimitOf(group).value_or(kNone));
  return least;
}

uint64_t MemoryLimit::Room() const {
  uint64_t least = kNone;
  for (const MemoryGroup& group : groups_) least = std::min(least, RoomIn(group));
  return least;
}

uint64_t MemoryLimit::Within(uint64_t wanted) const {
  const uint64_t room = Room();
  if (room == kNone) return wanted;
  const uint64_t kept = Bytes() / 16;
  return std::min(wanted, room - std::min(room, kept));
}

}  // namespace npubank::service
