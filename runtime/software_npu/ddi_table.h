// How an exported table of functions is filled. Included by the files that export tables.
//
//   NPUBANK_TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t, 5, SetFence)
//
// Every entry is filled: first with a function that returns UNSUPPORTED_FEATURE, then with what the
// driver has. A loader older than the headers this was built with gets only entries that its table
// has room for: those of version 1.4 (5 above), which hold all that the driver implements.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_DDI_TABLE_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_DDI_TABLE_H_

#include <level_zero/ze_api.h>

#include <algorithm>
#include <cstddef>

namespace npubank::software_npu {

inline ze_result_t ZE_APICALL Unsupported() { return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE; }

// Fills a table with Unsupported. It ignores its arguments, and on every platform of Level Zero the
// caller clears them away, so one function stands for all signatures.
template <class Table>
ze_result_t BeginTable(ze_api_version_t version, Table* table, size_t entries_of_1_4) {
  using Slot = void (*)();
  static_assert(sizeof(Table) % sizeof(Slot) == 0);
  if (table == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (ZE_MAJOR_VERSION(version) != ZE_MAJOR_VERSION(ZE_API_VERSION_CURRENT)) {
    return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
  }
  const bool whole = version >= ZE_API_VERSION_CURRENT;
  std::fill_n(reinterpret_cast<Slot*>(table), whole ? sizeof(Table) / sizeof(Slot) : entries_of_1_4,
              reinterpret_cast<Slot>(&Unsupported));
  return ZE_RESULT_SUCCESS;
}

// For tables of which the driver has nothing.
template <class Table>
void SetNothing(Table*) {}

}  // namespace npubank::software_npu

#define NPUBANK_EXPORT extern "C" __attribute__((visibility("default")))

#define NPUBANK_TABLE(name, Table, entries_of_1_4, set)                                           \
  NPUBANK_EXPORT ze_result_t ZE_APICALL name(ze_api_version_t version, Table* table) {            \
    const ze_result_t result = npubank::software_npu::BeginTable(version, table, entries_of_1_4); \
    if (result == ZE_RESULT_SUCCESS) npubank::software_npu::set(table);                           \
    return result;                                                                                \
  }

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_DDI_TABLE_H_
