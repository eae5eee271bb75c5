/* A weight of 4 KiB on a device, by who has installed npubank and writes C. */
#include <npubank/runtime/c/npubank.h>
#include <stdio.h>

int main(void) {
  npubank_memory* memory = NULL;
  npubank_bank* bank = NULL;
  npubank_tensor* ones = NULL;
  npubank_lease* lease = NULL;
  const npubank_type type = {.element = NPUBANK_F16, .rank = 2, .dims = {64, 32}};
  npubank_error* error = npubank_memory_host(NULL, &memory);
  if (error == NULL) error = npubank_bank_create(memory, NULL, &bank);
  if (error == NULL) error = npubank_tensor_splat(&type, 0x3C00, &ones);
  if (error == NULL) error = npubank_bank_load_one(bank, "consumer", ones, NULL, &lease);
  const int failed = error != NULL;
  printf("npubank %s in C: %s\n", npubank_version(), failed ? npubank_error_text(error) : "OK");
  npubank_error_free(error);
  npubank_lease_free(lease);
  npubank_tensor_free(ones);
  npubank_bank_free(bank);
  npubank_memory_free(memory);
  return failed;
}
