#include "npubank/lazy_tensor/base/thread.h"

#include <exception>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace npubank {

absl::StatusOr<std::thread> StartThread(absl::AnyInvocable<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start a thread: ", error.what()));
  }
}

}  // namespace npubank
