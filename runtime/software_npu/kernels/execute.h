// Program: a function that the software NPU can run.
//
//   Program program(*std::move(function));       // checked by ReadFunctionBlob
//   bool done = program.Run(argument_pointers);
//
// `span` says which rows count. Rows at or after its count are not computed and not read, in every
// operation of a function that has one span; what they hold afterwards is unspecified.
// False, with outputs unspecified: the span leaves the chunk or the cache, a token is not in the
// table, or a weight lists a group that it does not have. Threads: Run may be called from several threads on different memory.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_EXECUTE_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_EXECUTE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "npubank/compiler_stub/blob/function_blob.h"

namespace npubank::software_npu {

class Program {
 public:
  explicit Program(Function function);

  const Function& function() const { return function_; }
  // Whether running writes into this argument.
  bool Writes(size_t argument) const { return writes_[argument]; }
  // One pointer per argument, each with room for it and aligned to its elements.
  bool Run(absl::Span<uint8_t* const> arguments) const;

 private:
  class Execution;

  Function function_;
  std::vector<bool> writes_;
  std::optional<size_t> scratch_;  // the argument
  std::optional<uint32_t> span_;   // the value that is every operation's span
  int64_t span_rows_ = 0;          // S of the operations that take it
};

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_EXECUTE_H_
