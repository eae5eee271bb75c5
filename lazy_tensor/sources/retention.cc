#include "npubank/lazy_tensor/sources/retention.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {

// Reads the private counts of a Source.
struct HeldSourceReader {
  static HeldSource Read(const Source& source) {
    return {source.name(), source.held_bytes_.load(std::memory_order_acquire),
            source.holders_.load(std::memory_order_acquire)};
  }
};

namespace {

std::atomic<uint64_t> live_bytes{0};

// Every Source of the process, held or not: a Source enters when made and leaves when destroyed, so
// that holding one costs no lock.
struct AllSources {
  Mutex mutex;
  std::set<const Source*> sources ABSL_GUARDED_BY(mutex);

  static AllSources& Get() {
    static AllSources* const all = new AllSources;  // outlives sources in static objects
    return *all;
  }
};

}  // namespace

Source::Source(std::string name, Digest identity, uint64_t size, Digest samples)
    : name_(std::move(name)),
      identity_(identity),
      size_(size),
      samples_(samples),
      live_(absl::StrCat("source ", identity_.ToHex().substr(0, 8)), name_) {
  AllSources& all = AllSources::Get();
  MutexLock lock(all.mutex);
  all.sources.insert(this);
}

Source::~Source() {
  AllSources& all = AllSources::Get();
  MutexLock lock(all.mutex);
  all.sources.erase(this);
}

SourceHold::SourceHold(std::shared_ptr<Source> source, uint64_t bytes)
    : source_(std::move(source)), bytes_(bytes) {
  live_bytes.fetch_add(bytes_, std::memory_order_relaxed);
  source_->held_bytes_.fetch_add(bytes_, std::memory_order_relaxed);
  source_->holders_.fetch_add(1, std::memory_order_relaxed);
}

SourceHold::~SourceHold() {
  source_->holders_.fetch_sub(1, std::memory_order_release);
  source_->held_bytes_.fetch_sub(bytes_, std::memory_order_release);
  live_bytes.fetch_sub(bytes_, std::memory_order_release);
}

uint64_t LiveSourceBytes() { return live_bytes.load(std::memory_order_acquire); }

std::vector<HeldSource> HeldSources() {
  std::vector<HeldSource> held;
  {
    AllSources& all = AllSources::Get();
    MutexLock lock(all.mutex);
    for (const Source* source : all.sources) {
      HeldSource entry = HeldSourceReader::Read(*source);
      if (entry.holders > 0) held.push_back(std::move(entry));
    }
  }
  std::sort(held.begin(), held.end(),
            [](const HeldSource& a, const HeldSource& b) { return a.name < b.name; });
  return held;
}

std::string DescribeHeldSources() {
  std::string text;
  for (const HeldSource& held : HeldSources()) {
    absl::StrAppend(&text, held.name, ": ", held.bytes, " bytes held by ", held.holders,
                    held.holders == 1 ? " constant\n" : " constants\n");
  }
  return text;
}

}  // namespace npubank
