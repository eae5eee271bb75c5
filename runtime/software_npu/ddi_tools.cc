// The exported tables of the tools and system management interfaces. The driver has neither, but
// the loader starts only drivers that answer for all these tables.
#include <level_zero/zes_api.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_api.h>
#include <level_zero/zet_ddi.h>

#include "npubank/runtime/software_npu/ddi_table.h"

NPUBANK_TABLE(zetGetDeviceProcAddrTable, zet_device_dditable_t, 1, SetNothing)
NPUBANK_TABLE(zetGetContextProcAddrTable, zet_context_dditable_t, 1, SetNothing)
NPUBANK_TABLE(zetGetCommandListProcAddrTable, zet_command_list_dditable_t, 4, SetNothing)
NPUBANK_TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t, 1, SetNothing)
NPUBANK_TABLE(zetGetKernelProcAddrTable, zet_kernel_dditable_t, 1, SetNothing)
NPUBANK_TABLE(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t, 3, SetNothing)
NPUBANK_TABLE(zetGetMetricGroupExpProcAddrTable, zet_metric_group_exp_dditable_t, 1, SetNothing)
NPUBANK_TABLE(zetGetMetricProcAddrTable, zet_metric_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t, 3, SetNothing)
NPUBANK_TABLE(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t, 4, SetNothing)
NPUBANK_TABLE(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t, 5, SetNothing)
NPUBANK_TABLE(zetGetDebugProcAddrTable, zet_debug_dditable_t, 11, SetNothing)

NPUBANK_TABLE(zesGetDriverProcAddrTable, zes_driver_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zesGetDeviceProcAddrTable, zes_device_dditable_t, 29, SetNothing)
NPUBANK_TABLE(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t, 8, SetNothing)
NPUBANK_TABLE(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t, 3,
              SetNothing)
NPUBANK_TABLE(zesGetPowerProcAddrTable, zes_power_dditable_t, 8, SetNothing)
NPUBANK_TABLE(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t, 17, SetNothing)
NPUBANK_TABLE(zesGetEngineProcAddrTable, zes_engine_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zesGetStandbyProcAddrTable, zes_standby_dditable_t, 3, SetNothing)
NPUBANK_TABLE(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zesGetMemoryProcAddrTable, zes_memory_dditable_t, 3, SetNothing)
NPUBANK_TABLE(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t, 6, SetNothing)
NPUBANK_TABLE(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t, 4, SetNothing)
NPUBANK_TABLE(zesGetPsuProcAddrTable, zes_psu_dditable_t, 2, SetNothing)
NPUBANK_TABLE(zesGetFanProcAddrTable, zes_fan_dditable_t, 6, SetNothing)
NPUBANK_TABLE(zesGetLedProcAddrTable, zes_led_dditable_t, 4, SetNothing)
NPUBANK_TABLE(zesGetRasProcAddrTable, zes_ras_dditable_t, 4, SetNothing)
NPUBANK_TABLE(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t, 3, SetNothing)
