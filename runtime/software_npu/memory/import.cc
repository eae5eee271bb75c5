#include "npubank/runtime/software_npu/memory/import.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/memory/allocation.h"
#include "npubank/runtime/software_npu/memory/backing.h"

namespace npubank::software_npu {
namespace {

constexpr uint64_t kPage = 4096;

class ImportedMemory : public Allocation {
 public:
  ImportedMemory(const uint8_t* pointer, uint8_t* base, uint64_t bytes, bool writable,
                 std::optional<Mapping> view, Charge charge)
      : Allocation(charge.context(), ZE_MEMORY_TYPE_HOST, base, bytes),
        pointer_(pointer),
        charge_(std::move(charge)),
        view_(std::move(view)),
        writable_(writable) {}

  uint8_t* Access(uint64_t offset, uint64_t bytes, Intent intent) const override {
    if (!Contains(offset, bytes) || (intent == Intent::kWrite && !writable_)) return nullptr;
    return (view_.has_value() ? view_->data() : base()) + offset;
  }
  const uint8_t* pointer() const override { return pointer_; }

 private:
  const uint8_t* pointer_;
  Charge charge_;
  std::optional<Mapping> view_;
  bool writable_;
};

// How the process has a range of addresses mapped.
struct Protection {
  bool whole = false;  // every page of the range is there and readable
  int pieces = 0;      // mappings it is made of
  bool writable = true;
  bool shared = true;
  bool file_shared_writable = false;
  bool file_private = false;
};

struct MapsCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Reads it from /proc/self/maps, whose lines are sorted by address.
Protection ProtectionOf(uint64_t begin, uint64_t end) {
  Protection protection;
  const std::unique_ptr<std::FILE, MapsCloser> maps(std::fopen("/proc/self/maps", "re"));
  if (maps == nullptr) return protection;
  char line[8192];
  uint64_t next = begin;
  while (next < end && std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    uint64_t from = 0;
    uint64_t to = 0;
    uint64_t inode = 0;
    char mode[5] = {};
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64, &from, &to, mode,
                    &inode) != 4 ||
        to <= next) {
      continue;
    }
    if (from > next || mode[0] != 'r') return protection;
    const bool file = inode != 0;
    ++protection.pieces;
    const bool shared = mode[3] == 's';
    protection.writable &= mode[1] == 'w';
    protection.shared &= shared;
    protection.file_shared_writable |= file && shared && mode[1] == 'w';
    protection.file_private |= file && !shared;
    next = to;
  }
  protection.whole = next >= end;
  return protection;
}

// A read-only pin of a private file mapping breaks the sharing with the page cache: every page
// becomes a copy of its own. Writing each page's first byte to itself does the same.
void CopyPrivatePages(uint64_t begin, uint64_t end) {
  const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory < 0) return;
  for (uint64_t page = begin; page < end; page += kPage) {
    char byte = 0;
    const auto offset = static_cast<off_t>(page);
    if (pread(memory, &byte, 1, offset) != 1 || pwrite(memory, &byte, 1, offset) != 1) break;
  }
  close(memory);
}

}  // namespace

ze_result_t ImportSystemMemory(const std::shared_ptr<Context>& context,
                               const SystemMemoryDesc& memory, bool read_only, void** out) {
  if (!GetSwitches()->import_system_memory) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  if (memory.pSystemMemory == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (memory.size == 0) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  const auto address = reinterpret_cast<uint64_t>(memory.pSystemMemory);
  if (memory.size > std::numeric_limits<uint64_t>::max() - address - kPage) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  const uint64_t begin = address / kPage * kPage;
  const uint64_t end = (address + memory.size + kPage - 1) / kPage * kPage;
  auto* const base = reinterpret_cast<uint8_t*>(begin);
  if (AddressMap::Get().Overlaps(base, end - begin)) return ZE_RESULT_ERROR_INVALID_ARGUMENT;

  const Protection protection = ProtectionOf(begin, end);
  if (!protection.whole || protection.file_shared_writable ||
      (!protection.writable && !read_only)) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  std::optional<Charge> charge = Charge::Take(Charge::Kind::kImport, end - begin, context);
  if (!charge.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  std::optional<Mapping> view;
  if (protection.shared && protection.pieces == 1) view = Mapping::Duplicate(base, end - begin);
  if (read_only && protection.file_private) CopyPrivatePages(begin, end);
  auto allocation = std::make_shared<ImportedMemory>(
      static_cast<const uint8_t*>(memory.pSystemMemory), base, end - begin, !read_only,
      std::move(view), std::move(*charge));
  if (!AddressMap::Get().Add(std::move(allocation))) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *out = memory.pSystemMemory;
  return ZE_RESULT_SUCCESS;
}

}  // namespace npubank::software_npu
