// Whatever the bytes of a message are: what is read from them is written and read as the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "npubank/bank/service/wire/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npubank::service;
  const auto message = Decode({reinterpret_cast<const char*>(data), size});
  if (!message.ok()) return 0;
  const std::string bytes = Encode(*message);
  const auto again = Decode(bytes);
  if (!again.ok() || again->index() != message->index() || Encode(*again) != bytes) std::abort();
  return 0;
}
