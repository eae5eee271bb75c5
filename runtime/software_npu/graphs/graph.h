// Graph: one compiled function (compiler_stub/blob/function_blob.h) with its arguments.
//
// Setting an argument checks the pointer: it must lie in memory of the graph's context, with room for
// the argument, aligned to NPUBANK_NPU_ARGUMENT_ALIGNMENT and to its elements. Appending captures the
// arguments as they are then, so one graph can be appended many times with different ones.
// Executing fails (DEVICE_LOST) when memory has gone or may not be written, or when the function
// itself does (kernels/execute.h).
// Threads: any.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_GRAPH_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_GRAPH_H_

#include <level_zero/ze_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/mutex.h"
#include "npubank/runtime/level_zero/graph_extension.h"
#include "npubank/runtime/software_npu/context.h"
#include "npubank/runtime/software_npu/handles.h"
#include "npubank/runtime/software_npu/kernels/execute.h"
#include "npubank/runtime/software_npu/memory/allocation.h"

namespace npubank::software_npu {

class Graph {
 public:
  using Handle = level_zero::GraphHandle;
  static constexpr HandleKind kHandleKind = HandleKind::kGraph;
  static constexpr bool kUsableAfterFork = false;

  Graph(std::shared_ptr<Context> context, Function function, std::string blob);
  virtual ~Graph() = default;

  ChildOf<Context>& context() { return context_; }
  const Function& function() const { return program_.function(); }
  const std::string& blob() const { return blob_; }

  ze_result_t SetArgument(uint32_t index, const void* pointer);
  // The arguments as they are now; INVALID_ARGUMENT when one is not set or its memory has gone.
  ze_result_t Capture(std::vector<Place>* places) const;
  bool Execute(const std::vector<Place>& arguments) const;

 private:
  ze_result_t Resolve(uint32_t index, const void* pointer, Place* place) const;

  ChildOf<Context> context_;
  Program program_;
  std::string blob_;
  mutable Mutex mutex_;
  std::vector<const void*> arguments_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_GRAPHS_GRAPH_H_
