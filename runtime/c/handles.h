// What the C interface's handles are, and what all of its functions share: no exception, NULL or unknown number gets
// past it, and structs of older and newer callers are read and written by their own size.
//
//   npubank_error* npubank_tensor_shift(const npubank_tensor* tensor, npubank_tensor** out) {
//     return Guarded([&]() -> absl::Status {
//       NPUBANK_RETURN_IF_ERROR(Needs({{tensor, "tensor"}, {out, "out"}}));
//       ...
//     });
//   }
#ifndef NPUBANK_RUNTIME_C_HANDLES_H_
#define NPUBANK_RUNTIME_C_HANDLES_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "npubank/bank/bank.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/runtime/c/npubank.h"

struct npubank_error {
  npubank_code code;
  std::string text;
};
struct npubank_index {
  std::shared_ptr<npubank::SourceIndex> index;
};
struct npubank_tensor {
  npubank::LazyTensor tensor;
};
struct npubank_memory {
  std::shared_ptr<npubank::DeviceMemory> memory;
};
struct npubank_bank {
  std::shared_ptr<npubank::Bank> bank;
  std::shared_ptr<npubank::CacheFile> cache;  // or null
};
struct npubank_owner {
  npubank::Owner owner;
};
struct npubank_lease {
  npubank::Lease lease;
};
struct npubank_leases {
  std::vector<npubank::Lease> leases;
};

namespace npubank::c {

// Null for OK.
npubank_error* ErrorOf(const absl::Status& status);
// What a callback returned, which is taken over.
absl::Status TakeStatus(npubank_error* error);
npubank_error* OutOfMemory();

template <typename Call>
npubank_error* Guarded(Call call) {
  try {
    return ErrorOf(call());
  } catch (...) {  // nothing of ours throws but for want of memory
    return OutOfMemory();
  }
}

struct Argument {
  const void* pointer;
  const char* name;
};
// InvalidArgument, naming the first that is NULL.
absl::Status Needs(std::initializer_list<Argument> arguments);

// A struct whose size the caller says. `given` may be null: all defaults.
absl::Status CheckSize(size_t given, size_t known, const void* bytes, const char* name);
template <typename T>
absl::StatusOr<T> Read(const T* given, const char* name) {
  T read = {};
  read.struct_size = sizeof(T);
  if (given == nullptr) return read;
  if (absl::Status status = CheckSize(given->struct_size, sizeof(T), given, name); !status.ok()) {
    return status;
  }
  std::memcpy(&read, given, std::min(given->struct_size, sizeof(T)));
  read.struct_size = sizeof(T);
  return read;
}
// As much of `told` as the caller has room for.
template <typename T>
absl::Status Write(T told, T* out, const char* name) {
  if (absl::Status status = CheckSize(out->struct_size, out->struct_size, out, name); !status.ok()) {
    return status;
  }
  told.struct_size = out->struct_size;
  std::memcpy(out, &told, std::min(out->struct_size, sizeof(T)));
  return absl::OkStatus();
}

npubank_type TypeOf(const TensorType& type);
absl::StatusOr<TensorType> TypeOf(const npubank_type& type);

std::shared_ptr<DeviceMemory> WrapMemory(const npubank_memory_callbacks& callbacks);
std::shared_ptr<Workers> WrapExecutor(const npubank_executor& executor);

}  // namespace npubank::c

#endif  // NPUBANK_RUNTIME_C_HANDLES_H_
