// Extensions: which the driver reports, and the tables it gives out for them.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_EXTENSIONS_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_EXTENSIONS_H_

#include <level_zero/ze_api.h>

#include <cstdint>

namespace npubank::software_npu {

ze_result_t DriverGetExtensionProperties(ze_driver_handle_t handle, uint32_t* count,
                                         ze_driver_extension_properties_t* properties);
// Tables of ZE_extension_graph (and its older names) and of the driver's own extension;
// INVALID_ARGUMENT for other names.
ze_result_t DriverGetExtensionFunctionAddress(ze_driver_handle_t handle, const char* name,
                                              void** out);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_EXTENSIONS_H_
