#include "npubank/bank/service/daemon/source_proof.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <cerrno>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/file_identity.h"

namespace npubank::service {
namespace {

// /proc gives no sizes: read until it ends.
absl::StatusOr<std::string> ReadProc(const std::string& path) {
  const FileDescriptor file = FileDescriptor::Open(path, O_RDONLY);
  if (!file.is_open()) return SystemError(errno, "cannot open", path);
  std::string text;
  std::vector<std::byte> piece(16 << 10);
  for (;;) {
    NPUBANK_ASSIGN_OR_RETURN(const size_t got,
                             ReadAt(file, path, text.size(), absl::MakeSpan(piece)));
    text.append(reinterpret_cast<const char*>(piece.data()), got);
    if (got < piece.size()) return text;
  }
}

std::optional<absl::string_view> Field(absl::string_view fdinfo, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(fdinfo, '\n')) {
    if (absl::ConsumePrefix(&line, name)) return absl::StripAsciiWhitespace(line);
  }
  return std::nullopt;
}

// "36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/root rw": the type comes after the lone dash.
std::optional<absl::string_view> TypeOfMount(absl::string_view mountinfo, absl::string_view mount) {
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    if (!absl::StartsWith(line, absl::StrCat(mount, " "))) continue;
    const size_t dash = line.find(" - ");
    if (dash == absl::string_view::npos) return std::nullopt;
    const std::vector<absl::string_view> rest = absl::StrSplit(line.substr(dash + 3), ' ');
    return rest[0];
  }
  return std::nullopt;
}

// The mount that this process's root lies on, as a line of mountinfo. The real one lists what lies below the root
// only, and that mount not, where the root is a folder of it (chroot). Asked of the root, which answers
// this process all the time, and never of a file that somebody brought.
absl::StatusOr<std::string> MountOfTheRoot() {
  const FileDescriptor root = FileDescriptor::Open("/", O_PATH | O_DIRECTORY);
  struct statfs facts = {};
  if (!root.is_open() || fstatfs(root.get(), &facts) != 0)
    return SystemError(errno, "cannot ask", "/");
  NPUBANK_ASSIGN_OR_RETURN(const std::string fdinfo,
                           ReadProc(absl::StrCat("/proc/self/fdinfo/", root.get())));
  const bool in_user_space = facts.f_type == FUSE_SUPER_MAGIC;
  return absl::StrCat(Field(fdinfo, "mnt_id:").value_or("?"), " / - ",
                      in_user_space ? "fuse" : "root");
}

// A list of mounts that names the descriptor's, where there is one: this process's own nearly always does.
absl::StatusOr<std::string> MountsFor(absl::string_view fdinfo, uint32_t client) {
  NPUBANK_ASSIGN_OR_RETURN(std::string mountinfo, ReadProc("/proc/self/mountinfo"));
  const auto mount = Field(fdinfo, "mnt_id:");
  if (!mount.has_value() || TypeOfMount(mountinfo, *mount).has_value()) return mountinfo;
  NPUBANK_ASSIGN_OR_RETURN(const std::string root, MountOfTheRoot());
  absl::StrAppend(&mountinfo, "\n", root);
  if (client != 0) {
    // Where it cannot be read, what is on none of our mounts is refused.
    const auto theirs = ReadProc(absl::StrCat("/proc/", client, "/mountinfo"));
    if (theirs.ok()) absl::StrAppend(&mountinfo, "\n", *theirs);
  }
  return mountinfo;
}

absl::Status ProvesNothing(absl::string_view why) {
  return absl::PermissionDeniedError(
      absl::StrCat("its descriptor does not prove that it may be read: ", why));
}

}  // namespace

absl::Status JudgeDescriptor(absl::string_view fdinfo, absl::string_view mountinfo) {
  const auto flags_text = Field(fdinfo, "flags:");
  const auto mount = Field(fdinfo, "mnt_id:");
  uint64_t flags = 0;
  if (!flags_text || !mount) return ProvesNothing("the system says nothing of it");
  for (const char digit : *flags_text) {
    if (digit < '0' || digit > '7') return ProvesNothing("the system says nothing of it");
    flags = flags * 8 + static_cast<uint64_t>(digit - '0');
  }
  if ((flags & O_PATH) != 0) return ProvesNothing("it is only a name (O_PATH)");
  if ((flags & O_ACCMODE) != O_RDONLY && (flags & O_ACCMODE) != O_RDWR) {
    return ProvesNothing("it was not opened for reading");
  }
  const auto type = TypeOfMount(mountinfo, *mount);
  if (!type) {
    return ProvesNothing(absl::StrCat("it lies on mount ", *mount,
                                      ", which neither this daemon nor its client shows"));
  }
  if (absl::StartsWith(*type, "fuse")) {
    return ProvesNothing(absl::StrCat("it lies on a file system in user space (", *type,
                                      "), which may never answer"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<BroughtFile>> BroughtFile::Take(FileDescriptor file,
                                                               std::string name, uint32_t client) {
  NPUBANK_ASSIGN_OR_RETURN(const std::string fdinfo,
                           ReadProc(absl::StrCat("/proc/self/fdinfo/", file.get())));
  NPUBANK_ASSIGN_OR_RETURN(const std::string mountinfo, MountsFor(fdinfo, client));
  NPUBANK_RETURN_IF_ERROR(Annotate(JudgeDescriptor(fdinfo, mountinfo), name));
  NPUBANK_ASSIGN_OR_RETURN(const FileIdentity identity,
                           FileIdentity::Of(file, name, SampleFile::kAlways));
  std::shared_ptr<BroughtFile> brought(new BroughtFile(std::move(file), std::move(name)));
  brought->identity_ = identity.identity;
  brought->samples_ = identity.samples;
  brought->size_ = identity.facts.size;
  return brought;
}

absl::StatusOr<std::shared_ptr<Source>> BroughtFile::Open() const {
  FileDescriptor again(fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (!again.is_open()) return SystemError(errno, "cannot use once more", name_);
  return Source::OfDescriptor(std::move(again), name_);
}

}  // namespace npubank::service
