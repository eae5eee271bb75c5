// FunctionBlob: one compiled function as the driver reads it: typed arguments, values with a place,
// and operations in order. Weights are arguments, so one function serves many closures.
//
//   NPUBANK_ASSIGN_OR_RETURN(Function function, ReadFunctionBlob(bytes));
//   for (const FunctionOp& op : function.ops) Execute(op, ...);
//
// ReadFunctionBlob checks everything, so that what it returns can be executed without further
// checks: version and identifier, every index in range, argument order, element types and
// dimensions that fit each operation (function.fbs says them), storage inside its argument or the
// scratch area, 64-byte aligned scratch offsets, storage shared between an operation's output and
// another value only where the operation allows it. Errors: InvalidArgument naming the function and
// the operation. A Function is a value; it keeps nothing of `bytes`.
#ifndef NPUBANK_COMPILER_STUB_BLOB_FUNCTION_BLOB_H_
#define NPUBANK_COMPILER_STUB_BLOB_FUNCTION_BLOB_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/shape.h"
#include "npubank/lazy_tensor/weight_form.h"

namespace npubank {

// The numbers of function.fbs.
enum class OpKind : uint8_t {
  kEmbed = 1,
  kRmsNorm = 2,
  kMatMul = 3,
  kRope = 4,
  kCacheWrite = 5,
  kAttentionScores = 6,
  kSoftmax = 7,
  kAttentionMix = 8,
  kSiluMul = 9,
  kAdd = 10,
  kSelectLast = 11,
  kAddBias = 12,
};

enum class Storage : uint8_t { kArgument = 0, kScratch = 1 };

struct FunctionValue {
  std::string name;
  TensorType type;
  Storage storage = Storage::kArgument;
  uint64_t place = 0;  // argument number, or byte offset in scratch
};

struct OpAttributes {
  float epsilon = 0;
  std::vector<float> frequencies;
  bool interleaved = false;
  int64_t head_dim = 0;
  int64_t heads = 0;
  int64_t first_head = 0;
  int64_t heads_per_kv_head = 1;
  float scale = 1;
  bool transposed = false;
  WeightForm form = {};  // of the weight, whose parts are inputs 1, 2, ...
  int64_t window = 0;    // positions that a row sees; 0: all up to its own
};

struct FunctionOp {
  OpKind kind = OpKind::kAdd;
  std::string name;
  std::vector<uint32_t> inputs;  // value numbers
  uint32_t output = 0;
  OpAttributes attributes;
};

// How many inputs the operation's weight takes: one, if it is plain.
size_t WeightInputs(const FunctionOp& op);

enum class ArgumentKind : uint8_t { kInput = 0, kOutput = 1 };

struct FunctionArgument {
  std::string name;
  ArgumentKind kind = ArgumentKind::kInput;
  TensorType type;
  // An output that is written over an input when that is not needed any more: the input's number,
  // and the caller binds both to the same memory. -1: memory of its own.
  int32_t over = -1;
};

struct Function {
  std::string name;
  std::vector<FunctionArgument> arguments;  // inputs first
  std::vector<FunctionValue> values;
  std::vector<FunctionOp> ops;
  uint64_t scratch_bytes = 0;
};

absl::StatusOr<Function> ReadFunctionBlob(absl::string_view bytes);
// The bytes of `function`; the same function always gives the same bytes.
std::string WriteFunctionBlob(const Function& function);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_BLOB_FUNCTION_BLOB_H_
