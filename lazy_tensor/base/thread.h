// StartThread: a thread, or a Status where the system has none to give.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::thread thread, StartThread([this] { Run(); }));
//
// std::thread's own constructor throws then, and nothing in this project catches what it does not
// expect: every thread is started here. Errors: ResourceExhausted.
#ifndef NPUBANK_LAZY_TENSOR_BASE_THREAD_H_
#define NPUBANK_LAZY_TENSOR_BASE_THREAD_H_

#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

namespace npubank {

absl::StatusOr<std::thread> StartThread(absl::AnyInvocable<void()> body);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_BASE_THREAD_H_
