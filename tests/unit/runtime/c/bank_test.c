/* A bank from C: device memory and threads of the embedder's own, and every call of it failing once. Argument: a folder to
 * write in. */
#include <stdatomic.h>

#include "npubank/tests/unit/runtime/c/checks.h"

/* ---- an embedder's memory, whose N-th call fails ---- */

typedef struct Device {
  atomic_int live, calls, drops, trims;
  int fails_at; /* 0: never */
  int hidden;   /* the host may not touch it: only through write and read */
} Device;

static int Fails(Device* device) {
  return atomic_fetch_add(&device->calls, 1) + 1 == device->fails_at;
}

static npubank_error* Allocate(void* user, uint64_t bytes, const char* tensor,
                               npubank_allocation* out) {
  Device* device = user;
  CHECK(tensor != NULL && out->struct_size == sizeof *out);
  if (Fails(device)) return npubank_error_new(NPUBANK_UNAVAILABLE, "the card is gone");
  out->handle = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  out->address = out->handle;
  out->host_bytes = device->hidden ? NULL : out->handle;
  out->reserved_bytes = (bytes + 63) / 64 * 64;
  atomic_fetch_add(&device->live, 1);
  return NULL;
}

/* Aligned as is asked, up to a page; pools 1 and 2 are the same memory, and what is asked for last is told. */
typedef struct Pools {
  Device device;
  uint64_t alignment, pool;
} Pools;

static npubank_error* AllocateWith(void* user, uint64_t bytes, const char* tensor,
                                   const npubank_memory_hints* hints, npubank_allocation* out) {
  Pools* pools = user;
  CHECK(tensor != NULL && hints->struct_size == sizeof *hints && out->struct_size == sizeof *out);
  if (Fails(user)) return npubank_error_new(NPUBANK_UNAVAILABLE, "the card is gone");
  if (hints->alignment > 4096 || hints->pool > 2) {
    return npubank_error_new(NPUBANK_UNIMPLEMENTED, "the card has pages of 4096 and pools 1 and 2");
  }
  pools->alignment = hints->alignment;
  pools->pool = hints->pool;
  out->handle = out->address = out->host_bytes =
      aligned_alloc(4096, (size_t)(bytes + 4095) / 4096 * 4096);
  atomic_fetch_add(&pools->device.live, 1);
  return NULL;
}

static void Release(void* user, void* handle) {
  atomic_fetch_sub(&((Device*)user)->live, 1);
  free(handle);
}

static npubank_error* Write(void* user, void* handle, uint64_t offset, const void* bytes,
                            size_t size) {
  if (Fails(user)) return npubank_error_new(NPUBANK_UNAVAILABLE, "the card is gone");
  memcpy((char*)handle + offset, bytes, size);
  return NULL;
}

static npubank_error* ReadBack(void* user, void* handle, uint64_t offset, void* bytes,
                               size_t size) {
  if (Fails(user)) return npubank_error_new(NPUBANK_UNAVAILABLE, "the card is gone");
  memcpy(bytes, (const char*)handle + offset, size);
  return NULL;
}

static void Trim(void* user) { atomic_fetch_add(&((Device*)user)->trims, 1); }
static void Drop(void* user) { atomic_fetch_add(&((Device*)user)->drops, 1); }

static npubank_memory_callbacks CallbacksOf(Device* device) {
  npubank_memory_callbacks callbacks = NPUBANK_INIT(npubank_memory_callbacks);
  callbacks.user = device;
  callbacks.name = "card";
  callbacks.allocate = Allocate;
  callbacks.release = Release;
  callbacks.write = Write;
  callbacks.read = ReadBack;
  callbacks.trim = Trim;
  callbacks.drop = Drop;
  return callbacks;
}

static npubank_memory* MemoryOf(Device* device) {
  const npubank_memory_callbacks callbacks = CallbacksOf(device);
  npubank_memory* memory = NULL;
  OK(npubank_memory_custom(&callbacks, &memory));
  return memory;
}

static npubank_tensor* Splat(int64_t elements, uint64_t bits) {
  npubank_type type;
  npubank_tensor* tensor = NULL;
  memset(&type, 0, sizeof type);
  type.element = NPUBANK_F32;
  type.rank = 1;
  type.dims[0] = elements;
  OK(npubank_tensor_splat(&type, bits, &tensor));
  return tensor;
}

/* ---- what the library calls ---- */

static void RunInline(void* user, int64_t times, void (*work)(void* argument), void* argument) {
  atomic_fetch_add((atomic_int*)user, 1);
  for (int64_t i = 0; i < times; ++i) work(argument);
}
static void DropThreads(void* user) { atomic_fetch_add((atomic_int*)user, 1000); }

static void CountProgress(void* user, uint64_t done, uint64_t total, const char* tensor) {
  CHECK(done <= total && tensor != NULL);
  ++*(int*)user;
}
static int Always(void* user) { return user != NULL; }
static void CountLine(void* user, const char* line) { *(int*)user += line != NULL; }
static void CountObject(void* user, const char* what, uint64_t count) {
  CHECK(what != NULL);
  *(uint64_t*)user += count;
}

static uint64_t LiveObjects(void) {
  uint64_t count = 0;
  OK(npubank_live_objects(CountObject, &count));
  return count;
}

/* ---- tests ---- */

static void AModelComesRunsSleepsAndGoes(const char* folder) {
  const uint64_t before = LiveObjects();
  Device device = {.hidden = 1};
  atomic_int runs = 0;
  char cache[4096], snapshot[4096];
  snprintf(cache, sizeof cache, "%s/weights.cache", folder);
  snprintf(snapshot, sizeof snapshot, "%s/run.bank", folder);
  remove(cache); /* of an earlier run */
  npubank_executor executor = NPUBANK_INIT(npubank_executor);
  executor.user = &runs;
  executor.count = 2;
  executor.run = RunInline;
  executor.drop = DropThreads;
  npubank_bank_options options = NPUBANK_INIT(npubank_bank_options);
  options.executor = &executor;
  options.cache_path = cache;
  npubank_memory* memory = MemoryOf(&device);
  npubank_bank* bank = NULL;
  OK(npubank_bank_create(memory, &options, &bank));

  npubank_owner* owner = NULL;
  OK(npubank_owner_add(bank, "prefill", NULL, &owner));
  npubank_tensor *ones = Splat(1 << 20, 0x3F800000), *twos = Splat(7, 0x40000000),
                 *again = Splat(7, 0x40000000);
  uint64_t uid = 0;
  int hit = 1;
  OK(npubank_bank_register(bank, owner, ones, "ones", NULL, NULL));
  OK(npubank_bank_register(bank, owner, twos, "twos", &uid, &hit));
  CHECK(hit == 0 && uid == npubank_tensor_uid(twos));
  OK(npubank_bank_register(bank, owner, again, "twos", &uid, &hit));
  CHECK(hit == 1 && npubank_tensor_detached(again) == 1);

  npubank_tensor_state state = NPUBANK_INIT(npubank_tensor_state);
  OK(npubank_bank_inspect(bank, uid, &state));
  CHECK(strcmp(state.state, "registered") == 0 && state.bytes == 28 && state.owners == 1);
  int steps = 0;
  npubank_load_options load = NPUBANK_INIT(npubank_load_options);
  load.user = &steps;
  load.progress = CountProgress;
  const npubank_owner* owners[1] = {owner};
  npubank_leases* leases = NULL;
  OK(npubank_bank_load(bank, owners, 1, &load, &leases));
  CHECK(npubank_leases_count(leases) == 2 && steps == 2 && atomic_load(&runs) > 0);
  npubank_lease* lease = NULL;
  OK(npubank_leases_get(leases, 1, &lease));
  FAILS(npubank_leases_get(leases, 2, &lease), NPUBANK_OUT_OF_RANGE, "2");
  npubank_leases_free(leases);
  npubank_lease_facts facts = NPUBANK_INIT(npubank_lease_facts);
  OK(npubank_lease_get_facts(lease, &facts));
  CHECK(facts.uid == uid && facts.type.bytes == 28 && facts.device_bytes == 64 &&
        facts.host_bytes == NULL);
  CHECK(strcmp(facts.strategy, "embedder") == 0 && facts.file_descriptor == -1 &&
        facts.file_path == NULL);
  CHECK(((const float*)facts.address)[6] == 2.0f);

  npubank_sleep_options nap = NPUBANK_INIT(npubank_sleep_options);
  npubank_sleep_report report = NPUBANK_INIT(npubank_sleep_report);
  nap.keep_host_copy = 1;
  OK(npubank_bank_sleep(bank, owners, 1, &nap, &report));
  CHECK(report.bytes_given_back == 4 << 20 && report.bytes_leased == 64);
  npubank_lease_free(lease);
  OK(npubank_bank_wake(bank, owners, 1, NULL));
  OK(npubank_bank_get(bank, uid, &lease));
  npubank_lease_free(lease);
  float seven[7];
  OK(npubank_bank_read(bank, uid, 0, seven, sizeof seven));
  CHECK(seven[0] == 2.0f && seven[6] == 2.0f);
  FAILS(npubank_bank_read(bank, uid, 4, seven, sizeof seven), NPUBANK_OUT_OF_RANGE, "28");
  OK(npubank_bank_sleep(bank, owners, 1, &nap, NULL));
  uint64_t dropped = 1;
  OK(npubank_bank_drop_host_copies(bank, owners, 1, &dropped));
  CHECK(dropped == 0); /* nothing else brings them back */
  OK(npubank_bank_wake(bank, owners, 1, NULL));

  OK(npubank_bank_save_cache(bank));
  OK(npubank_bank_save_snapshot(bank, snapshot));
  FAILS(npubank_bank_save_snapshot(bank, "/nowhere/at/all"), NPUBANK_NOT_FOUND, "/nowhere/at/all");
  OK(npubank_bank_audit(bank, 0));
  FAILS(npubank_bank_audit(bank, 1), NPUBANK_INTERNAL, NULL);
  npubank_totals totals = NPUBANK_INIT(npubank_totals);
  OK(npubank_bank_totals(bank, &totals));
  CHECK(totals.unique_tensors == 2 && totals.hits == 1 && totals.budget == 0);
  FAILS(npubank_bank_set_budget(bank, 1), NPUBANK_RESOURCE_EXHAUSTED, NULL);
  OK(npubank_bank_set_budget(bank, 8 << 20));
  npubank_usage usage = NPUBANK_INIT(npubank_usage);
  OK(npubank_memory_usage(memory, &usage));
  CHECK(usage.live_allocations == 2 && usage.live_bytes == (4 << 20) + 64);
  CHECK(npubank_bank_evict(bank, 1) == 0 && npubank_bank_trim(bank) == 0);

  npubank_owner_free(owner);
  CHECK(atomic_load(&device.live) == 0 && atomic_load(&device.trims) > 0);
  FAILS(npubank_bank_inspect(bank, uid, &state), NPUBANK_NOT_FOUND, NULL);
  FAILS(npubank_bank_get(bank, uid, &lease), NPUBANK_NOT_FOUND, NULL);
  npubank_tensor_free(ones);
  npubank_tensor_free(twos);
  npubank_tensor_free(again);
  npubank_memory_free(memory); /* the bank keeps it */
  CHECK(atomic_load(&device.drops) == 0);
  npubank_bank_free(bank);
  CHECK(atomic_load(&device.drops) == 1 && atomic_load(&runs) >= 1000);
  CHECK(LiveObjects() == before);
}

/* Every call of the device fails once: the load says so, nothing is left, and the next one succeeds. */
static void WhateverCallFailsNothingIsLost(void) {
  for (int hidden = 0; hidden < 2; ++hidden) {
    int failed = 1;
    for (int nth = 1; failed; ++nth) {
      const uint64_t before = LiveObjects();
      Device device = {.fails_at = nth, .hidden = hidden};
      npubank_memory* memory = MemoryOf(&device);
      npubank_bank* bank = NULL;
      OK(npubank_bank_create(memory, NULL, &bank));
      npubank_owner* owner = NULL;
      OK(npubank_owner_add(bank, "model", NULL, &owner));
      npubank_tensor *ones = Splat(600000, 0x3F800000), *twos = Splat(7, 0x40000000);
      OK(npubank_bank_register(bank, owner, ones, "ones", NULL, NULL));
      OK(npubank_bank_register(bank, owner, twos, "twos", NULL, NULL));
      const npubank_owner* owners[1] = {owner};
      npubank_leases* leases = NULL;
      npubank_error* error = npubank_bank_load(bank, owners, 1, NULL, &leases);
      failed = atomic_load(&device.calls) >= nth;
      if (error != NULL) {
        CHECK(leases == NULL && strstr(npubank_error_text(error), "the card is gone") != NULL);
        npubank_error_free(error);
        OK(npubank_bank_load(bank, owners, 1, NULL, &leases));
      }
      CHECK(npubank_leases_count(leases) == 2);
      npubank_leases_free(leases);
      npubank_owner_free(owner);
      CHECK(atomic_load(&device.live) == 0);
      npubank_tensor_free(ones);
      npubank_tensor_free(twos);
      npubank_bank_free(bank);
      npubank_memory_free(memory);
      CHECK(atomic_load(&device.drops) == 1 && LiveObjects() == before);
    }
  }
}

/* A bank on such callbacks, with one owner. */
typedef struct Hinted {
  Pools pools;
  npubank_memory* memory;
  npubank_bank* bank;
  npubank_owner* owner;
} Hinted;

static void OpenHinted(Hinted* hinted, size_t callbacks_size) {
  npubank_memory_callbacks callbacks = CallbacksOf(&hinted->pools.device);
  callbacks.allocate_with = AllocateWith;
  callbacks.struct_size = callbacks_size;
  OK(npubank_memory_custom(&callbacks, &hinted->memory));
  OK(npubank_bank_create(hinted->memory, NULL, &hinted->bank));
  OK(npubank_owner_add(hinted->bank, "model", NULL, &hinted->owner));
}

static void CloseHinted(Hinted* hinted) {
  npubank_owner_free(hinted->owner);
  npubank_bank_free(hinted->bank);
  npubank_memory_free(hinted->memory);
  CHECK(atomic_load(&hinted->pools.device.live) == 0 && atomic_load(&hinted->pools.device.drops) == 1);
}

static void ATensorLiesWhereItIsWantedOrIsRefused(void) {
  Hinted hinted = {.memory = NULL};
  OpenHinted(&hinted, sizeof(npubank_memory_callbacks));
  npubank_tensor *ones = Splat(7, 0x3F800000), *twos = Splat(7, 0x40000000);
  npubank_memory_hints hints = NPUBANK_INIT(npubank_memory_hints);
  npubank_tensor_state state = NPUBANK_INIT(npubank_tensor_state);
  npubank_lease_facts facts = NPUBANK_INIT(npubank_lease_facts);
  npubank_lease* lease = NULL;
  uint64_t uid = 0;
  int hit = 1;
  hints.alignment = 1024;
  hints.pool = 2;
  OK(npubank_bank_register_with(hinted.bank, hinted.owner, ones, "ones", &hints, &uid, &hit));
  CHECK(hit == 0);
  OK(npubank_bank_inspect(hinted.bank, uid, &state));
  CHECK(state.alignment == 1024 && state.pool == 2);
  OK(npubank_bank_get(hinted.bank, uid, &lease));
  CHECK(hinted.pools.alignment == 1024 && hinted.pools.pool == 2);
  OK(npubank_lease_get_facts(lease, &facts));
  CHECK((uintptr_t)facts.address % 1024 == 0 && *(const float*)facts.host_bytes == 1.0f);
  hints.pool = 1;
  FAILS(npubank_bank_register_with(hinted.bank, hinted.owner, ones, "ones", &hints, NULL, NULL),
        NPUBANK_FAILED_PRECONDITION, "pool 2");
  npubank_lease_free(lease);
  hints.alignment = 1000;
  FAILS(npubank_bank_register_with(hinted.bank, hinted.owner, twos, "twos", &hints, NULL, NULL),
        NPUBANK_INVALID_ARGUMENT, "power of two");
  hints.alignment = 8192; /* which the callback refuses, when it is asked */
  OK(npubank_bank_register_with(hinted.bank, hinted.owner, twos, "twos", &hints, &uid, NULL));
  FAILS(npubank_bank_get(hinted.bank, uid, &lease), NPUBANK_UNIMPLEMENTED, "pages of 4096");
  hints.struct_size = 3;
  FAILS(npubank_bank_register_with(hinted.bank, hinted.owner, twos, "twos", &hints, NULL, NULL),
        NPUBANK_INVALID_ARGUMENT, "npubank_memory_hints");
  FAILS(npubank_bank_register_with(hinted.bank, NULL, twos, "twos", NULL, NULL, NULL),
        NPUBANK_INVALID_ARGUMENT, "'owner'");
  npubank_tensor_free(twos);
  npubank_tensor_free(ones);
  CloseHinted(&hinted);
}

/* Callbacks, and a state, of a program that was compiled before there were hints. */
static void AnOlderProgramKnowsNothingOfHints(void) {
  Hinted older = {.memory = NULL};
  OpenHinted(&older, offsetof(npubank_memory_callbacks, allocate_with));
  npubank_tensor* ones = Splat(7, 0x3F800000);
  npubank_memory_hints hints = NPUBANK_INIT(npubank_memory_hints);
  uint64_t uid = 0;
  hints.alignment = 128;
  FAILS(npubank_bank_register_with(older.bank, older.owner, ones, "ones", &hints, &uid, NULL),
        NPUBANK_UNIMPLEMENTED, "card puts nothing at a multiple of 128");
  hints.alignment = 64; /* which all of its addresses are */
  OK(npubank_bank_register_with(older.bank, older.owner, ones, "ones", &hints, &uid, NULL));
  npubank_lease* lease = NULL;
  OK(npubank_bank_get(older.bank, uid, &lease));
  CHECK(older.pools.alignment == 0);
  npubank_tensor_state state;
  memset(&state, 0xAB, sizeof state);
  state.struct_size = offsetof(npubank_tensor_state, alignment);
  OK(npubank_bank_inspect(older.bank, uid, &state));
  CHECK(strcmp(state.state, "resident") == 0 && state.alignment == 0xABABABABABABABABu);
  npubank_lease_free(lease);
  npubank_tensor_free(ones);
  CloseHinted(&older);
}

static void LoadsAreCancelledAndWhatIsMissingIsNamed(void) {
  npubank_memory* memory = NULL;
  npubank_bank* bank = NULL;
  npubank_lease* lease = NULL;
  npubank_host_options little = NPUBANK_INIT(npubank_host_options);
  little.capacity = 4096;
  OK(npubank_memory_host(&little, &memory));
  OK(npubank_bank_create(memory, NULL, &bank));
  npubank_tensor *large = Splat(5000, 0), *small = Splat(5, 0);
  FAILS(npubank_bank_load_one(bank, "large", large, NULL, &lease), NPUBANK_RESOURCE_EXHAUSTED,
        "large");
  npubank_load_options options = NPUBANK_INIT(npubank_load_options);
  options.cancelled = Always;
  options.user = bank;
  FAILS(npubank_bank_load_one(bank, "small", small, &options, &lease), NPUBANK_CANCELLED, NULL);
  OK(npubank_bank_load_one(bank, "small", small, NULL, &lease));
  npubank_lease_facts facts = NPUBANK_INIT(npubank_lease_facts);
  OK(npubank_lease_get_facts(lease, &facts));
  CHECK(facts.host_bytes != NULL && strcmp(facts.strategy, "host") == 0);
  npubank_lease_free(lease);
  const npubank_owner* nobody[1] = {NULL};
  npubank_leases* leases = NULL;
  FAILS(npubank_bank_load(bank, nobody, 1, NULL, &leases), NPUBANK_INVALID_ARGUMENT, "NULL");
  FAILS(npubank_bank_wake(bank, NULL, 1, NULL), NPUBANK_INVALID_ARGUMENT, "NULL");
  FAILS(npubank_bank_create(NULL, NULL, &bank), NPUBANK_INVALID_ARGUMENT, "'memory'");
  FAILS(npubank_bank_register(bank, NULL, small, "x", NULL, NULL), NPUBANK_INVALID_ARGUMENT,
        "'owner'");
  FAILS(npubank_memory_custom(NULL, &memory), NPUBANK_INVALID_ARGUMENT, "'callbacks'");
  npubank_memory_callbacks none = NPUBANK_INIT(npubank_memory_callbacks);
  FAILS(npubank_memory_custom(&none, &memory), NPUBANK_INVALID_ARGUMENT, "'allocate'");
  npubank_bank_options minus = NPUBANK_INIT(npubank_bank_options);
  minus.threads = -1;
  FAILS(npubank_bank_create(memory, &minus, &bank), NPUBANK_INVALID_ARGUMENT, "-1");
  /* Options as an older header had them. */
  npubank_bank_options older = NPUBANK_INIT(npubank_bank_options);
  npubank_bank* tight = NULL;
  older.struct_size = offsetof(npubank_bank_options, keep_unowned);
  older.budget_bytes = 8;
  older.threads = -1; /* not looked at */
  npubank_tensor_free(small);
  small = Splat(5, 0); /* the other has been loaded, and is detached */
  OK(npubank_bank_create(memory, &older, &tight));
  FAILS(npubank_bank_load_one(tight, "small", small, NULL, &lease), NPUBANK_RESOURCE_EXHAUSTED,
        NULL);
  npubank_bank_free(tight);
  npubank_tensor_free(large);
  npubank_tensor_free(small);
  npubank_bank_free(bank);
  npubank_memory_free(memory);
  CHECK(npubank_bank_evict(NULL, 1) == 0 && npubank_bank_trim(NULL) == 0 &&
        npubank_leases_count(NULL) == 0);
  npubank_bank_free(NULL);
  npubank_memory_free(NULL);
  npubank_owner_free(NULL);
  npubank_lease_free(NULL);
  npubank_leases_free(NULL);
}

/* Whoever forgets NPUBANK_INIT is told of which struct; the library reads and writes none of it. */
static void StructsThatWereNotInitialisedAreRefusedByName(void) {
  union {
    size_t struct_size;
    char bytes[4096];
  } stack;
  memset(&stack, 0x5A, sizeof stack);
  npubank_memory* memory = NULL;
  npubank_bank *bank = NULL, *no_bank = NULL;
  npubank_owner* owner = NULL;
  npubank_lease* lease = NULL;
  npubank_leases* leases = NULL;
  OK(npubank_memory_host(NULL, &memory));
  OK(npubank_bank_create(memory, NULL, &bank));
  OK(npubank_owner_add(bank, "model", NULL, &owner));
  npubank_tensor* ones = Splat(7, 0x3F800000);
  OK(npubank_bank_load_one(bank, "ones", ones, NULL, &lease));
  const npubank_owner* owners[1] = {owner};
  void* odd = &stack;
#define REFUSED(call, name) FAILS(call, NPUBANK_INVALID_ARGUMENT, "struct_size of " name " is ")
  for (int i = 0; i < 3; ++i) {
    stack.struct_size = i == 0 ? 0x5A5A5A5A5A5A5A5A : i == 1 ? 0 : 1 << 20;
    REFUSED(npubank_memory_host(odd, &memory), "npubank_host_options");
    REFUSED(npubank_memory_npu(odd, &memory), "npubank_npu_options");
    REFUSED(npubank_memory_custom(odd, &memory), "npubank_memory_callbacks");
    REFUSED(npubank_memory_usage(memory, odd), "npubank_usage");
    REFUSED(npubank_bank_create(memory, odd, &no_bank), "npubank_bank_options");
    REFUSED(npubank_bank_register_with(bank, owner, ones, "ones", odd, NULL, NULL), "npubank_memory_hints");
    REFUSED(npubank_bank_load(bank, owners, 1, odd, &leases), "npubank_load_options");
    REFUSED(npubank_bank_load_one(bank, "ones", ones, odd, &lease), "npubank_load_options");
    REFUSED(npubank_bank_wake(bank, owners, 1, odd), "npubank_load_options");
    REFUSED(npubank_bank_sleep(bank, owners, 1, odd, NULL), "npubank_sleep_options");
    REFUSED(npubank_bank_sleep(bank, owners, 1, NULL, odd), "npubank_sleep_report");
    REFUSED(npubank_bank_totals(bank, odd), "npubank_totals");
    REFUSED(npubank_bank_inspect(bank, npubank_tensor_uid(ones), odd), "npubank_tensor_state");
    REFUSED(npubank_lease_get_facts(lease, odd), "npubank_lease_facts");
    npubank_bank_options options = NPUBANK_INIT(npubank_bank_options);
    options.executor = odd;
    REFUSED(npubank_bank_create(memory, &options, &no_bank), "npubank_executor");
  }
#undef REFUSED
  for (size_t i = sizeof(size_t); i < sizeof stack; ++i) CHECK(stack.bytes[i] == 0x5A);
  npubank_lease_free(lease);
  npubank_tensor_free(ones);
  npubank_owner_free(owner);
  npubank_bank_free(bank);
  npubank_memory_free(memory);
}

/* On the software NPU, which lies beside the library. What its driver lacks goes to the log. */
static void WeightsAreLoadedOnAnNpu(void) {
  int lines = 0;
  npubank_memory* memory = NULL;
  npubank_bank* bank = NULL;
  npubank_lease* lease = NULL;
  npubank_npu_options options = NPUBANK_INIT(npubank_npu_options);
  npubank_set_log(CountLine, &lines);
  options.device = "software";
  options.strategy = "tiled"; /* which this driver has not got */
  OK(npubank_memory_npu(&options, &memory));
  CHECK(lines == 1);
  npubank_set_log(NULL, NULL);
  OK(npubank_bank_create(memory, NULL, &bank));
  npubank_tensor* ones = Splat(1000, 0x3F800000);
  OK(npubank_bank_load_one(bank, "ones", ones, NULL, &lease));
  float last = 0;
  OK(npubank_bank_read(bank, npubank_tensor_uid(ones), 3996, &last, sizeof last));
  CHECK(last == 1.0f);
  npubank_lease_free(lease);
  npubank_tensor_free(ones);
  npubank_bank_free(bank);
  npubank_memory_free(memory);
  options.strategy = "magic";
  FAILS(npubank_memory_npu(&options, &memory), NPUBANK_INVALID_ARGUMENT, "magic");
  options.strategy = NULL;
  options.device = "toaster";
  FAILS(npubank_memory_npu(&options, &memory), NPUBANK_INVALID_ARGUMENT, "toaster");
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  AModelComesRunsSleepsAndGoes(argv[1]);
  WhateverCallFailsNothingIsLost();
  ATensorLiesWhereItIsWantedOrIsRefused();
  AnOlderProgramKnowsNothingOfHints();
  LoadsAreCancelledAndWhatIsMissingIsNamed();
  StructsThatWereNotInitialisedAreRefusedByName();
  WeightsAreLoadedOnAnNpu();
  return 0;
}
