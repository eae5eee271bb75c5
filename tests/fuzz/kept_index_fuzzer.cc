// Whatever the bytes of an index of kept segments are, what is read from them fits together, and is written
// and read as the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "npubank/bank/service/daemon/kept_index.h"
#include "npubank/bank/service/segment.h"
#include "npubank/lazy_tensor/base/range.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npubank;
  using service::KeptIndex;
  const auto first = KeptIndex::Decode({reinterpret_cast<const char*>(data), size});
  if (!first.ok()) return 0;
  for (const KeptIndex::Tensor& of : first->tensors) {
    if (of.segment >= first->segments.size() || of.offset % service::Segment::kPage != 0) abort();
    const uint64_t bytes = of.tensor.type.bytes();
    if (bytes == 0 || !RangeFits(of.offset, bytes, first->segments[of.segment].bytes)) abort();
  }
  const auto second = KeptIndex::Decode(first->Encode());
  if (!second.ok() || second->Encode() != first->Encode()) abort();
  return 0;
}
