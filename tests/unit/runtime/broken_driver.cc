// A driver of Level Zero whose device does not answer.
#include <level_zero/ze_ddi.h>

namespace {

ze_result_t ZE_APICALL NoDevice(ze_init_flags_t) { return ZE_RESULT_ERROR_UNINITIALIZED; }

}  // namespace

extern "C" ZE_APIEXPORT ze_result_t ZE_APICALL
zeGetGlobalProcAddrTable(ze_api_version_t, ze_global_dditable_t* table) {
  table->pfnInit = NoDevice;
  return ZE_RESULT_SUCCESS;
}
