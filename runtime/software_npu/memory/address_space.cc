#include "npubank/runtime/software_npu/memory/address_space.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::software_npu {
namespace {

constexpr char kList[] = "/proc/self/maps";
constexpr long kTmpfs = 0x01021994;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// What the list says of one region, or the kernel's answer.
struct Answer {
  Region region;
  dev_t device = 0;
  uint64_t inode = 0;
  std::string name;
};

// The device that nameless files in memory are on.
dev_t NamelessFiles() {
  static const dev_t device = [] {
    const Descriptor file(memfd_create("npubank_probe", MFD_CLOEXEC));
    struct stat status = {};
    return file.get() >= 0 && fstat(file.get(), &status) == 0 ? status.st_dev : dev_t{0};
  }();
  return device;
}

bool IsMemoryFile(const Answer& answer) {
  if (answer.device != 0 && answer.device == NamelessFiles()) return true;
  struct statfs system = {};
  struct stat status = {};
  return statfs(answer.name.c_str(), &system) == 0 && system.f_type == kTmpfs &&
         stat(answer.name.c_str(), &status) == 0 && status.st_dev == answer.device &&
         status.st_ino == answer.inode;
}

Region Finish(const Answer& answer, uint64_t begin, uint64_t end) {
  Region region = answer.region;
  region.begin = std::max(region.begin, begin);
  region.end = std::min(region.end, end);
  region.file = answer.inode != 0;
  region.memory_file = region.file && IsMemoryFile(answer);
  return region;
}

// The kernel's interface for one region, as of Linux 6.11; older headers do not declare it.
struct RegionQuery {
  uint64_t bytes = sizeof(RegionQuery);
  uint64_t flags = 0;
  uint64_t address = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t answer_flags = 0;
  uint64_t page_bytes = 0;
  uint64_t offset = 0;
  uint64_t inode = 0;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint32_t name_bytes = 0;
  uint32_t build_id_bytes = 0;
  uint64_t name = 0;
  uint64_t build_id = 0;
};
constexpr unsigned long kQueryRegion = _IOWR('f', 17, RegionQuery);
constexpr uint64_t kReadable = 1;
constexpr uint64_t kWritable = 2;
constexpr uint64_t kShared = 8;
constexpr uint64_t kThisOrNext = 16;

// The region that holds `address`, or the next one after it. False with errno ENOENT: none.
bool AskKernel(int list, uint64_t address, Answer* answer) {
  char name[4096] = {};
  RegionQuery query;
  query.flags = kThisOrNext;
  query.address = address;
  query.name_bytes = sizeof(name);
  query.name = reinterpret_cast<uint64_t>(name);
  if (ioctl(list, kQueryRegion, &query) != 0) return false;
  answer->region.begin = query.begin;
  answer->region.end = query.end;
  answer->region.readable = (query.answer_flags & kReadable) != 0;
  answer->region.writable = (query.answer_flags & kWritable) != 0;
  answer->region.shared = (query.answer_flags & kShared) != 0;
  answer->device = makedev(query.device_major, query.device_minor);
  answer->inode = query.inode;
  name[sizeof(name) - 1] = 0;
  answer->name = name;
  return true;
}

// This process's list, opened once: what is open names the memory of the process that opened it, so a
// child opens its own.
class OpenList {
 public:
  static int Get() {
    static OpenList& list = *new OpenList();
    MutexLock lock(list.mutex_);
    if (list.process_ != getpid() || list.file_->get() < 0) {
      list.file_.emplace(open(kList, O_RDONLY | O_CLOEXEC));
      list.process_ = getpid();
    }
    return list.file_->get();
  }

 private:
  Mutex mutex_;
  pid_t process_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Descriptor> file_ ABSL_GUARDED_BY(mutex_);
};

// nullopt where the kernel cannot be asked.
std::optional<std::vector<Region>> RegionsFromKernel(uint64_t begin, uint64_t end) {
  const int list = OpenList::Get();
  if (list < 0) return std::nullopt;
  std::vector<Region> regions;
  for (uint64_t next = begin; next < end;) {
    Answer answer;
    if (!AskKernel(list, next, &answer)) {
      if (errno != ENOENT) return std::nullopt;
      break;
    }
    if (answer.region.begin >= end || answer.region.end <= next) break;
    next = answer.region.end;
    regions.push_back(Finish(answer, begin, end));
  }
  return regions;
}

bool ParseLine(const char* line, Answer* answer) {
  char mode[5] = {};
  unsigned device_major = 0;
  unsigned device_minor = 0;
  int name_at = 0;
  if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %x:%x %" SCNu64 " %n",
                  &answer->region.begin, &answer->region.end, mode, &device_major, &device_minor,
                  &answer->inode, &name_at) != 6) {
    return false;
  }
  answer->region.readable = mode[0] == 'r';
  answer->region.writable = mode[1] == 'w';
  answer->region.shared = mode[3] == 's';
  answer->device = makedev(device_major, device_minor);
  answer->name.assign(line + name_at, strcspn(line + name_at, "\n"));
  return true;
}

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::vector<Region> RegionsFromList(uint64_t begin, uint64_t end) {
  std::vector<Region> regions;
  const std::unique_ptr<std::FILE, Closer> list(std::fopen(kList, "re"));
  if (list == nullptr) return regions;
  char line[8192];
  while (std::fgets(line, sizeof(line), list.get()) != nullptr) {
    Answer answer;
    if (!ParseLine(line, &answer) || answer.region.end <= begin) continue;
    if (answer.region.begin >= end) break;
    regions.push_back(Finish(answer, begin, end));
  }
  return regions;
}

std::vector<Region> RegionsOf(uint64_t begin, uint64_t end) {
  std::optional<std::vector<Region>> regions = RegionsFromKernel(begin, end);
  return regions.has_value() ? *std::move(regions) : RegionsFromList(begin, end);
}

bool CoverWhole(const std::vector<Region>& regions, uint64_t begin, uint64_t end) {
  uint64_t next = begin;
  for (const Region& region : regions) {
    if (region.begin != next || !region.readable) return false;
    next = region.end;
  }
  return next >= end;
}

}  // namespace npubank::software_npu
