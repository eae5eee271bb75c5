// A parent's own bank and runtime, beside npubank's.
#include "bank/bank.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/lazy_tensor/shape.h"
#include "runtime/submodel.h"

static_assert(__cplusplus >= 202002L, "npubank's headers need C++20");

int main() {
  int nobody_uses_this;
  return parent::kBank + parent::kSubmodel == 3 && npubank::LiveObjects().empty() ? 0 : 1;
}
