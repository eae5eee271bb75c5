/* Two models that share a weight, on a device memory of one's own: no C++ in sight.
 *
 *   c_runtime
 *
 * The "device" is plain memory behind two functions, as a card behind a driver would be; the kernel is a dot product. */
#include <npubank/runtime/c/npubank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS 1024

/* ---- the device ---- */

typedef struct Card {
  int allocations;
} Card;

static npubank_error* Allocate(void* user, uint64_t bytes, const char* tensor, npubank_allocation* out) {
  const size_t rounded = (size_t)((bytes + 4095) / 4096 * 4096);
  (void)tensor;
  out->handle = rounded < bytes ? NULL : aligned_alloc(4096, rounded);
  /* The bank evicts what is idle and asks again. */
  if (out->handle == NULL) return npubank_error_new(NPUBANK_RESOURCE_EXHAUSTED, "the card is full");
  out->address = out->handle;
  out->reserved_bytes = rounded;
  ++((Card*)user)->allocations;
  return NULL;
}
static void Release(void* user, void* handle) {
  --((Card*)user)->allocations;
  free(handle);
}
static npubank_error* Write(void* user, void* handle, uint64_t offset, const void* bytes, size_t size) {
  (void)user;
  memcpy((char*)handle + offset, bytes, size);
  return NULL;
}
static npubank_error* Read(void* user, void* handle, uint64_t offset, void* bytes, size_t size) {
  (void)user;
  memcpy(bytes, (const char*)handle + offset, size);
  return NULL;
}
static float RunKernel(const void* weights) {
  float sum = 0;
  for (int i = 0; i < ELEMENTS; ++i) sum += ((const float*)weights)[i];
  return sum;
}

/* ---- the runtime ---- */

static void Must(npubank_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "error: %s\n", npubank_error_text(error));
  npubank_error_free(error);
  exit(1);
}

static void Print(void* user, uint64_t done, uint64_t total, const char* tensor) {
  printf("  %s: %llu of %llu bytes of '%s'\n", (const char*)user, (unsigned long long)done, (unsigned long long)total, tensor);
}

/* A model registers what it needs; who comes second finds it. */
static npubank_owner* AddModel(npubank_bank* bank, const char* name, float value) {
  uint32_t bits;
  npubank_owner* owner = NULL;
  npubank_tensor* weight = NULL;
  const npubank_type type = {.element = NPUBANK_F32, .rank = 1, .dims = {ELEMENTS}};
  memcpy(&bits, &value, sizeof bits);
  Must(npubank_owner_add(bank, name, NULL, &owner));
  Must(npubank_tensor_splat(&type, bits, &weight));
  int hit = 0;
  Must(npubank_bank_register(bank, owner, weight, "layer0.weight", NULL, &hit));
  printf("%s: its weight is %s\n", name, hit ? "known" : "new");
  npubank_tensor_free(weight);
  return owner;
}

static float Run(npubank_bank* bank, npubank_owner* owner, const char* name) {
  npubank_leases* leases = NULL;
  npubank_lease* lease = NULL;
  npubank_lease_facts facts = NPUBANK_INIT(npubank_lease_facts);
  npubank_load_options options = NPUBANK_INIT(npubank_load_options);
  const npubank_owner* owners[1] = {owner};
  options.user = (void*)(uintptr_t)name;
  options.progress = Print;
  Must(npubank_bank_load(bank, owners, 1, &options, &leases));
  Must(npubank_leases_get(leases, 0, &lease));
  npubank_leases_free(leases);
  Must(npubank_lease_get_facts(lease, &facts));
  const float result = RunKernel(facts.address); /* while the lease lives the bytes stay */
  npubank_lease_free(lease);
  return result;
}

int main(void) {
  Card card = {0};
  npubank_memory_callbacks callbacks = NPUBANK_INIT(npubank_memory_callbacks);
  callbacks.user = &card;
  callbacks.name = "card";
  callbacks.allocate = Allocate;
  callbacks.release = Release;
  callbacks.write = Write;
  callbacks.read = Read;
  npubank_memory* memory = NULL;
  npubank_bank* bank = NULL;
  Must(npubank_memory_custom(&callbacks, &memory));
  Must(npubank_bank_create(memory, NULL, &bank));
  npubank_memory_free(memory); /* the bank keeps it */

  npubank_owner* prefill = AddModel(bank, "prefill", 0.5f);
  npubank_owner* kvcache = AddModel(bank, "kvcache", 0.5f);
  const float first = Run(bank, prefill, "prefill"), second = Run(bank, kvcache, "kvcache");
  printf("sums %g and %g, %d allocation(s) on the card\n", first, second, card.allocations);
  const int shared = card.allocations == 1 && first == 512 && second == 512;
  npubank_owner_free(prefill);
  npubank_owner_free(kvcache);
  npubank_bank_free(bank);
  printf("%d left\n", card.allocations);
  return shared && card.allocations == 0 ? 0 : 1;
}
