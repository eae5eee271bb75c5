// Whatever the bytes of a cache file are, under a seal of their own or behind a good one, every
// payload its index names lies within the file and can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "npubank/bank/files/cache_file.h"

namespace npubank {
namespace {

void Check(const std::string& bytes) {
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  const auto file =
      Source::FromBuffer(std::vector<std::byte>(data, data + bytes.size()), "fuzzed.cache");
  const auto entries = ReadCacheIndex(file);
  if (!entries.ok()) return;
  for (const auto& [digest, cached] : *entries) {
    if (cached.bytes == 0 || cached.offset % CacheFile::kAlignment != 0) abort();
    const absl::Status status = CheckPayload(cached);
    if (!status.ok() && !absl::IsDataLoss(status)) abort();  // not what was written, or fine
  }
}

}  // namespace
}  // namespace npubank

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npubank;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  Check(bytes);
  constexpr uint64_t kOffset = 3 * CacheFile::kAlignment;  // room for two payloads
  std::string sealed = EncodeSeal(kCacheFile, kOffset, bytes);
  sealed.resize(kOffset, 'p');
  Check(sealed + bytes);
  return 0;
}
