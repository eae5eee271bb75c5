// A weight of 4 KiB on a device, by who has installed npubank.
#include <cstdio>
#include <memory>

#include "npubank/bank/bank.h"
#include "npubank/bank/host_memory.h"
#include "npubank/version.h"

static_assert(__cplusplus >= 202002L, "what links npubank is compiled as C++20");

int main() {
  using namespace npubank;
  const std::shared_ptr<Bank> bank = Bank::Create(std::make_shared<HostMemory>(), {});
  const TensorType type =
      TensorType::Create(ElementType::kF16, Shape::Create({64, 32}).value()).value();
  absl::StatusOr<LazyTensor> ones = LazyTensor::Splat(type, 0x3C00);
  absl::StatusOr<Lease> lease = bank->Load("consumer", *ones);
  std::printf("npubank %s: %s\n", NPUBANK_VERSION, lease.status().ToString().c_str());
  return lease.ok() && bank->Totals().device_bytes == 4096 ? 0 : 1;
}
