#include "npubank/runtime/software_npu/controls/switches.h"

#include <sys/sysinfo.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/software_npu/controls/forks.h"

namespace npubank::software_npu {
namespace {

constexpr uint64_t kMaxDelayMicroseconds = 10'000'000;
constexpr uint64_t kMaxThreads = 256;

bool IsPowerOfTwo(uint64_t n) { return n != 0 && (n & (n - 1)) == 0; }

uint64_t MachineMemory() {
  struct sysinfo info = {};
  if (sysinfo(&info) != 0) return uint64_t{16} << 30;
  return uint64_t{info.totalram} * info.mem_unit;
}

// Reads one variable; `fits` says whether its value can be used.
template <class Parse>
void Read(const char* name, Parse parse) {
  const char* text = std::getenv(name);
  if (text == nullptr || parse(absl::string_view(text))) return;
  WarnOnce(absl::StrCat(name, "='", text, "' is not understood and ignored"));
}

void ReadBytes(const char* name, uint64_t* value, bool (*fits)(uint64_t)) {
  Read(name, [&](absl::string_view text) {
    const std::optional<uint64_t> bytes = ParseBytes(text);
    if (!bytes.has_value() || !fits(*bytes)) return false;
    *value = *bytes;
    return true;
  });
}

void ReadBool(const char* name, bool* value) {
  Read(name, [&](absl::string_view text) {
    if (text != "0" && text != "1") return false;
    *value = text == "1";
    return true;
  });
}

void ReadNumber(const char* name, uint64_t* value, uint64_t most) {
  Read(name, [&](absl::string_view text) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(text, &number) || number > most) return false;
    *value = number;
    return true;
  });
}

std::shared_ptr<const Switches> ReadSwitches() {
  auto switches = std::make_shared<Switches>();
  switches->capacity = MachineMemory();
  const auto any = [](uint64_t) { return true; };
  const auto page = [](uint64_t n) {
    return IsPowerOfTwo(n) && n >= 4096 && n <= (uint64_t{1} << 30);
  };
  ReadBytes("NPUBANK_NPU_CAPACITY", &switches->capacity, any);
  ReadBytes("NPUBANK_NPU_ADDRESS_RANGE", &switches->address_range, any);
  ReadBytes("NPUBANK_NPU_PAGE_SIZE", &switches->page_size, page);
  ReadBytes("NPUBANK_NPU_TILE_SIZE", &switches->tile_size, page);
  ReadBytes("NPUBANK_NPU_ARGUMENT_ALIGNMENT", &switches->argument_alignment,
            [](uint64_t n) { return n == 1 || n == 16 || n == 64 || n == 4096; });
  ReadBool("NPUBANK_NPU_VIRTUAL_MEMORY", &switches->virtual_memory);
  ReadBool("NPUBANK_NPU_IMPORT", &switches->import_system_memory);
  ReadBool("NPUBANK_NPU_HOST_ACCESS", &switches->host_access);
  ReadNumber("NPUBANK_NPU_THREADS", &switches->threads, kMaxThreads);
  uint64_t delay = 0;
  ReadNumber("NPUBANK_NPU_COPY_DELAY_US", &delay, kMaxDelayMicroseconds);
  switches->copy_delay = std::chrono::microseconds(delay);
  ReadNumber("NPUBANK_NPU_DEVICE_LOST", &switches->lost_at_submission,
             std::numeric_limits<uint64_t>::max());
  if (const char* fail = std::getenv("NPUBANK_NPU_FAIL")) switches->fail = fail;
  return switches;
}

struct Store {
  Store() { KeepAcrossForks(mutex); }

  Mutex mutex;
  std::shared_ptr<const Switches> switches ABSL_GUARDED_BY(mutex);
};

Store& GetStore() {
  static Store* const store = new Store;
  return *store;
}

}  // namespace

std::shared_ptr<const Switches> GetSwitches() {
  Store& store = GetStore();
  {
    MutexLock lock(store.mutex);
    if (store.switches != nullptr) return store.switches;
  }
  std::shared_ptr<const Switches> switches = ReadSwitches();
  MutexLock lock(store.mutex);
  if (store.switches == nullptr) store.switches = std::move(switches);
  return store.switches;
}

void ReloadSwitches() {
  std::shared_ptr<const Switches> switches = ReadSwitches();
  Store& store = GetStore();
  MutexLock lock(store.mutex);
  store.switches = std::move(switches);
}

std::optional<uint64_t> ParseBytes(absl::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    switch (std::toupper(static_cast<unsigned char>(text.back()))) {
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
  }
  if (shift != 0) text.remove_suffix(1);
  uint64_t number = 0;
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0])) ||
      !absl::SimpleAtoi(text, &number) ||
      number > (std::numeric_limits<uint64_t>::max() >> shift)) {
    return std::nullopt;
  }
  return number << shift;
}

void WarnOnce(absl::string_view message) {
  static Mutex* const mutex = [] {
    auto* const made = new Mutex;
    KeepAcrossForks(*made);
    return made;
  }();
  static auto* const said = new std::set<std::string>;
  {
    MutexLock lock(*mutex);
    if (!said->insert(std::string(message)).second) return;
  }
  std::fprintf(stderr, "software NPU: %s\n", std::string(message).c_str());
}

}  // namespace npubank::software_npu
