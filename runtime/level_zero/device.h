// Device: an NPU found through the loader, with a context, its graph extension and what it can do.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Device> npu, Device::Open(DeviceChoice::kAuto));
//   npu->name();   // "Intel(R) AI Boost"
//
// Ownership: shared; everything made from it keeps it alive, so the context goes last.
// Threads: any. A context runs a driver thread: do not fork() while a Device lives.
// Errors: those of InitLoader; NotFound when no driver has a device of type NPU, or none of
// the kind that was chosen.
#ifndef NPUBANK_RUNTIME_LEVEL_ZERO_DEVICE_H_
#define NPUBANK_RUNTIME_LEVEL_ZERO_DEVICE_H_

#include <level_zero/ze_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "npubank/runtime/level_zero/graph_extension.h"
#include "npubank/runtime/level_zero/handle.h"
#include "npubank/runtime/level_zero/loader.h"
#include "npubank/runtime/level_zero/software_npu_extension.h"

namespace npubank::level_zero {

class Device {
 public:
  static absl::StatusOr<std::shared_ptr<Device>> Open(DeviceChoice choice);

  const std::string& name() const { return name_; }
  // Memory is the host's own: the CPU writes device allocations in place.
  bool integrated() const { return integrated_; }

  ze_driver_handle_t driver() const { return driver_; }
  ze_device_handle_t device() const { return device_; }
  ze_context_handle_t context() const { return context_.get(); }
  // Null where the driver has none.
  const GraphExtension* graphs() const { return graphs_; }
  // Which entries that table has: GraphVersion(1, 5) and so on; 0 where there is none.
  uint32_t graph_version() const { return graph_version_; }
  // Null on hardware.
  const SoftwareNpuExtension* software() const { return software_; }

  // What the addresses of graph arguments are to be multiples of: what the software NPU says, else 64,
  // since no driver can be asked and nobody has measured it.
  uint64_t argument_alignment() const;

  // Bytes the driver says this context holds; Unimplemented where it cannot be asked.
  absl::StatusOr<uint64_t> AllocatedBytes() const;

 private:
  Device() = default;
  std::string name_;
  bool integrated_ = false;
  ze_driver_handle_t driver_ = nullptr;
  ze_device_handle_t device_ = nullptr;
  ContextHandle context_;
  const GraphExtension* graphs_ = nullptr;
  uint32_t graph_version_ = 0;
  const SoftwareNpuExtension* software_ = nullptr;
};

}  // namespace npubank::level_zero

#endif  // NPUBANK_RUNTIME_LEVEL_ZERO_DEVICE_H_
