// OpRules: what each kind of operation takes and gives: how many inputs, of which elements and shapes, with which
// attributes, and which of them its result may overwrite.
//
//   NPUBANK_RETURN_IF_ERROR(CheckOp(function, op));   // numbers of values may be any
//   OpKindName(OpKind::kMatMul);                      // "MatMul"
//
// A new operation is a row of the table in op_rules.cc, and a check where it has attributes of its own.
// Errors: InvalidArgument saying what does not fit; the caller names the operation. Threads: pure functions.
#ifndef NPUBANK_COMPILER_STUB_BLOB_OP_RULES_H_
#define NPUBANK_COMPILER_STUB_BLOB_OP_RULES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "npubank/compiler_stub/blob/function_blob.h"

namespace npubank {

// Whether the operation's operands have the elements, shapes and attributes that function.fbs states.
absl::Status CheckOp(const Function& function, const FunctionOp& op);

// "MatMul" and so on; "unknown" for a number that is none.
absl::string_view OpKindName(OpKind kind);

// Whether the operation's result may lie exactly on its input number `input`, of the same type,
// when that input is not needed afterwards:
//   RmsNorm 0, Rope 0, Softmax 0, SiluMul 0 1, Add 0 1, MatMul 2 (the addend),
//   CacheWrite 1 and AttentionMix 3 (`out`), which always lie on it.
// Of an operation over a weight in parts the parts count as one: MatMul 2 is what follows them.
// An operation that overwrites one input must not have it as another input too, Add and SiluMul
// aside, which work element by element.
bool OutputMayOverwrite(const FunctionOp& op, size_t input);

}  // namespace npubank

#endif  // NPUBANK_COMPILER_STUB_BLOB_OP_RULES_H_
