// The pNext chains of Level Zero structures.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_STRUCTURE_CHAIN_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_STRUCTURE_CHAIN_H_

#include <cstdint>

namespace npubank::software_npu {

// The first structure of this type in the chain, or null. A chain that bites its own tail ends
// after a bounded number of links.
template <class T>
T* FindStructure(const void* chain, uint32_t stype) {
  struct Link {
    uint32_t stype;
    const void* next;
  };
  constexpr int kMostLinks = 64;
  for (int i = 0; chain != nullptr && i < kMostLinks; ++i) {
    const auto* link = static_cast<const Link*>(chain);
    if (link->stype == stype) return static_cast<T*>(const_cast<void*>(chain));
    chain = link->next;
  }
  return nullptr;
}

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_STRUCTURE_CHAIN_H_
