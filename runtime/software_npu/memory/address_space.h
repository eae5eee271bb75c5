// AddressSpace: how this process has a range of addresses mapped, as the system says.
//
//   std::vector<Region> regions = RegionsOf(begin, end);
//   bool all_there = CoverWhole(regions, begin, end);
//
// One question to the system per call: an answer per region where the kernel gives it (6.11 and
// later), else one reading of the process's list of mappings. What other threads map or unmap
// meanwhile may or may not be in the answer.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_ADDRESS_SPACE_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_ADDRESS_SPACE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace npubank::software_npu {

struct Region {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool readable = false;
  bool writable = false;
  bool shared = false;
  bool file = false;         // of any file system, those in memory included
  bool memory_file = false;  // a file that is nothing but memory: memfd, shared anonymous, tmpfs
};

// The regions that overlap [begin, end), ascending, cut to it.
std::vector<Region> RegionsOf(uint64_t begin, uint64_t end);
// The same from the process's list, which every kernel has.
std::vector<Region> RegionsFromList(uint64_t begin, uint64_t end);

// Whether they leave no gap and all can be read.
bool CoverWhole(const std::vector<Region>& regions, uint64_t begin, uint64_t end);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_MEMORY_ADDRESS_SPACE_H_
