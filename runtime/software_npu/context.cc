#include "npubank/runtime/software_npu/context.h"

#include "npubank/runtime/software_npu/device.h"
#include "npubank/runtime/software_npu/handles.h"

namespace npubank::software_npu {

ze_result_t ContextCreate(ze_driver_handle_t driver, const ze_context_desc_t* desc,
                          ze_context_handle_t* out) {
  if (!IsDriver(driver)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (desc == nullptr || out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  *out = Live<Context>().Add(std::make_shared<Context>());
  return ZE_RESULT_SUCCESS;
}

ze_result_t ContextDestroy(ze_context_handle_t handle) {
  const std::shared_ptr<Context> context = Live<Context>().Find(handle);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (context->children != 0) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
  Live<Context>().Remove(handle);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ContextGetStatus(ze_context_handle_t handle) {
  if (Live<Context>().Find(handle) == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return DeviceIsLost() ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

}  // namespace npubank::software_npu
