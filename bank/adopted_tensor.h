// AdoptedTensor: a tensor that an earlier process evaluated, whose bytes this one was handed.
//
//   std::unique_ptr<DeviceAllocation> memory = ... the bytes, in the bank's own device memory ...;
//   NPUBANK_RETURN_IF_ERROR(bank->Adopt({{.digest = digest, .stamp = stamp, .type = type, .name = "wq"}},
//                                       std::move(memory)));
//
// A value. That the bytes are this tensor's is the caller's to know: the bank cannot look.
#ifndef NPUBANK_BANK_ADOPTED_TENSOR_H_
#define NPUBANK_BANK_ADOPTED_TENSOR_H_

#include <string>

#include "npubank/lazy_tensor/digest.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {

struct AdoptedTensor {
  Digest digest;    // of its recipe
  Digest stamp;     // of the sources it was made from
  TensorType type;  // its bytes() are those of the memory
  std::string name;
};

}  // namespace npubank

#endif  // NPUBANK_BANK_ADOPTED_TENSOR_H_
