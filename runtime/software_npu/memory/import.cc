#include "npubank/runtime/software_npu/memory/import.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/align.h"
#include "npubank/lazy_tensor/base/files/lost_pages.h"
#include "npubank/runtime/software_npu/controls/statistics.h"
#include "npubank/runtime/software_npu/controls/switches.h"
#include "npubank/runtime/software_npu/memory/address_space.h"
#include "npubank/runtime/software_npu/memory/allocation.h"
#include "npubank/runtime/software_npu/memory/backing.h"

namespace npubank::software_npu {
namespace {

constexpr uint64_t kPage = 4096;

// The whole pages of a range; bytes 0 when they leave the address space.
struct Pages {
  uint64_t begin = 0;
  uint64_t bytes = 0;

  uint64_t end() const { return begin + bytes; }
  uint8_t* data() const { return reinterpret_cast<uint8_t*>(begin); }
};

Pages PagesOf(uint64_t address, uint64_t size) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  if (size > kMost - address || address + size > kMost - kPage) return {};
  const uint64_t begin = address / kPage * kPage;
  return {begin, AlignUp(address + size, kPage) - begin};
}

template <class Condition>
bool All(const std::vector<Region>& regions, Condition condition) {
  return std::all_of(regions.begin(), regions.end(), condition);
}

// Whether a kernel would pin them.
bool CanBePinned(const std::vector<Region>& regions, bool read_only) {
  return All(regions, [&](const Region& region) {
    if (read_only) return true;
    const bool dirties_a_disk = region.file && region.shared && !region.memory_file;
    return region.writable && !dirties_a_disk;
  });
}

class ImportedMemory : public Allocation {
 public:
  // `view` is the driver's own mapping of pages that are shared.
  ImportedMemory(Pages pages, bool writable, std::optional<Mapping> view, bool of_file,
                 Charge charge)
      : Allocation(charge.context(), ZE_MEMORY_TYPE_HOST, pages.data(), pages.bytes, pages.bytes),
        charge_(std::move(charge)),
        view_(std::move(view)),
        writable_(writable) {
    if (of_file) lost_.emplace(Data(), pages.bytes);
  }

  uint8_t* Access(uint64_t offset, uint64_t bytes, Intent intent) const override {
    if (!Contains(offset, bytes) || (intent == Intent::kWrite && !writable_)) return nullptr;
    if (!intact() || (!view_.has_value() && !IsStillThere(offset, bytes))) return nullptr;
    return Data() + offset;
  }
  bool intact() const override { return !lost_.has_value() || !lost_->any(); }
  bool IsFreedBy(const void*) const override { return true; }

 private:
  uint8_t* Data() const { return view_.has_value() ? view_->data() : base(); }
  bool IsStillThere(uint64_t offset, uint64_t bytes) const {
    const auto begin = reinterpret_cast<uint64_t>(base()) + offset;
    const std::vector<Region> regions = RegionsOf(begin, begin + bytes);
    return CoverWhole(regions, begin, begin + bytes) &&
           (!writable_ || All(regions, [](const Region& region) { return region.writable; }));
  }

  Charge charge_;
  std::optional<Mapping> view_;
  std::optional<LostPages> lost_;
  bool writable_;
};

// The same pages once more, at addresses of the driver's; nullopt where the system refuses.
std::optional<Mapping> MapAgain(const Pages& pages, const std::vector<Region>& regions) {
  if (regions.size() == 1) return Mapping::Again(pages.data(), pages.bytes);
  std::optional<Mapping> view = Mapping::Reserve(pages.bytes);
  if (!view.has_value()) return std::nullopt;
  for (const Region& region : regions) {
    auto* const data = reinterpret_cast<void*>(region.begin);
    if (!view->MapAgainInside(region.begin - pages.begin, data, region.end - region.begin)) {
      return std::nullopt;
    }
  }
  return view;
}

// A read-only pin of a private file mapping breaks the sharing with the page cache: every page
// becomes a copy of its own. Writing each page's first byte to itself does the same.
void CopyPrivatePages(const Region& region) {
  const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory < 0) return;
  for (uint64_t page = region.begin; page < region.end; page += kPage) {
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
  const Pages pages = PagesOf(reinterpret_cast<uint64_t>(memory.pSystemMemory), memory.size);
  if (pages.bytes == 0) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  if (AddressMap::Get().Overlaps(pages.data(), pages.bytes)) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  const std::vector<Region> regions = RegionsOf(pages.begin, pages.end());
  if (!CoverWhole(regions, pages.begin, pages.end()) || !CanBePinned(regions, read_only)) {
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  std::optional<Charge> charge = Charge::Take(Charge::Kind::kImport, pages.bytes, context);
  if (!charge.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  std::optional<Mapping> view;
  if (All(regions, [](const Region& region) { return region.shared; })) {
    view = MapAgain(pages, regions);
    if (!view.has_value()) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  for (const Region& region : regions) {
    if (read_only && region.file && !region.shared) CopyPrivatePages(region);
  }
  const bool of_file = !All(regions, [](const Region& region) { return !region.file; });
  if (!AddressMap::Get().Add(std::make_shared<ImportedMemory>(pages, !read_only, std::move(view),
                                                              of_file, std::move(*charge)))) {
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  *out = memory.pSystemMemory;
  return ZE_RESULT_SUCCESS;
}

}  // namespace npubank::software_npu
