/* npubank in C: stored and lazy tensors, device memories, a bank, owners and leases. C11; link libnpubank.so.
 *
 *   npubank_memory* memory = NULL;
 *   npubank_bank* bank = NULL;
 *   npubank_index* index = NULL;
 *   npubank_tensor* head = NULL;
 *   npubank_lease* lease = NULL;
 *   npubank_error* error = npubank_memory_npu(NULL, &memory);
 *   if (error == NULL) error = npubank_bank_create(memory, NULL, &bank);
 *   if (error == NULL) error = npubank_index_open("model.safetensors", &index);
 *   if (error == NULL) error = npubank_tensor_stored(index, "lm_head.weight", &head);
 *   if (error == NULL) error = npubank_bank_load_one(bank, "demo", head, NULL, &lease);
 *   if (error != NULL) fprintf(stderr, "%s\n", npubank_error_text(error));
 *   ...
 *   npubank_error_free(error);
 *   npubank_lease_free(lease); npubank_tensor_free(head); npubank_index_free(index);
 *   npubank_bank_free(bank); npubank_memory_free(memory);
 *
 * It is thin: what each thing means is said in the headers of the C++ library that the sections name. What holds for
 * every function here, where it does not say otherwise:
 *
 * Ownership   What comes out through `T** out` is the caller's: free it with npubank_T_free, which takes NULL too. What
 *             goes in is borrowed for the call; handles keep alive what they need, so they may be freed in any order.
 *             Text and arrays that are returned belong to the handle they were asked of and live as long as it.
 * Errors      NULL is success. An error is the caller's, has a code and a text that names the tensor or file and what
 *             to do, and is freed with npubank_error_free. Outputs are written on success only. A NULL where something
 *             is needed, or a number that no enumeration has, is NPUBANK_INVALID_ARGUMENT. Nothing is thrown or aborted.
 * Threads     Every function from any thread, also on one handle; but a handle is freed when nobody uses it any more.
 *             Callbacks are called on the calling thread where nothing else is said, and under no lock of the library.
 * Structs     begin with struct_size: NPUBANK_INIT(type) sets it and zeroes the rest, and zero is the default of every
 *             option. So a program that was compiled with an older header goes on to work with a newer library; what a
 *             newer program asks of an older library is NPUBANK_INVALID_ARGUMENT. Options may be NULL: all defaults.
 * Text        UTF-8, ends with a zero.
 */
#ifndef NPUBANK_RUNTIME_C_NPUBANK_H_
#define NPUBANK_RUNTIME_C_NPUBANK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NPUBANK_API __attribute__((visibility("default")))
#else
#define NPUBANK_API
#endif

/* npubank_load_options options = NPUBANK_INIT(npubank_load_options); */
#ifdef __cplusplus
#define NPUBANK_INIT(type) {sizeof(type)}
#else
#define NPUBANK_INIT(type) {.struct_size = sizeof(type)}
#endif

typedef struct npubank_error npubank_error;
typedef struct npubank_index npubank_index;
typedef struct npubank_tensor npubank_tensor;
typedef struct npubank_memory npubank_memory;
typedef struct npubank_bank npubank_bank;
typedef struct npubank_owner npubank_owner;
typedef struct npubank_lease npubank_lease;
typedef struct npubank_leases npubank_leases;

/* The library's version, "0.1.0". */
NPUBANK_API const char* npubank_version(void);

/* ---- errors ---- */

typedef enum npubank_code {
  NPUBANK_OK = 0,
  NPUBANK_CANCELLED = 1,
  NPUBANK_UNKNOWN = 2,
  NPUBANK_INVALID_ARGUMENT = 3,
  NPUBANK_DEADLINE_EXCEEDED = 4,
  NPUBANK_NOT_FOUND = 5,
  NPUBANK_ALREADY_EXISTS = 6,
  NPUBANK_PERMISSION_DENIED = 7,
  NPUBANK_RESOURCE_EXHAUSTED = 8,
  NPUBANK_FAILED_PRECONDITION = 9,
  NPUBANK_ABORTED = 10,
  NPUBANK_OUT_OF_RANGE = 11,
  NPUBANK_UNIMPLEMENTED = 12,
  NPUBANK_INTERNAL = 13,
  NPUBANK_UNAVAILABLE = 14,
  NPUBANK_DATA_LOSS = 15
} npubank_code;

/* An error of a callback's own: `code` is an npubank_code, `text` is copied. NPUBANK_OK becomes NPUBANK_UNKNOWN. Never NULL. */
NPUBANK_API npubank_error* npubank_error_new(uint32_t code, const char* text);
/* NPUBANK_OK, and "", for NULL. */
NPUBANK_API npubank_code npubank_error_code(const npubank_error* error);
NPUBANK_API const char* npubank_error_text(const npubank_error* error);
NPUBANK_API void npubank_error_free(npubank_error* error);

/* What no caller asked for and no error carries, a line at a time; NULL: standard error. Of the whole process. Called
 * from any thread, from several at once; one that was replaced may still be running when this returns.
 * (lazy_tensor/base/log.h) */
NPUBANK_API void npubank_set_log(void (*log)(void* user, const char* line), void* user);

/* Things of the library that are alive, by kind and name, for leak tests: two lists that are taken around a scope must be
 * equal. (lazy_tensor/base/live_objects.h) */
NPUBANK_API npubank_error* npubank_live_objects(void (*visit)(void* user, const char* what, uint64_t count), void* user);

/* ---- types (lazy_tensor/element_type.h, shape.h) ---- */

typedef enum npubank_element {
  NPUBANK_F32 = 1,
  NPUBANK_F16 = 2,
  NPUBANK_BF16 = 3,
  NPUBANK_F8_E4M3 = 4,
  NPUBANK_F8_E5M2 = 5,
  NPUBANK_F64 = 6,
  NPUBANK_I64 = 7,
  NPUBANK_I32 = 8,
  NPUBANK_I16 = 9,
  NPUBANK_I8 = 10,
  NPUBANK_U64 = 11,
  NPUBANK_U32 = 12,
  NPUBANK_U16 = 13,
  NPUBANK_U8 = 14,
  NPUBANK_BOOL = 15,
  NPUBANK_I4 = 16,
  NPUBANK_U4 = 17,
  NPUBANK_NF4 = 18
} npubank_element;

#define NPUBANK_MAX_RANK 8

/* A value that stays as it is: it has no struct_size. */
typedef struct npubank_type {
  uint32_t element; /* npubank_element */
  uint32_t rank;
  int64_t dims[NPUBANK_MAX_RANK]; /* row-major */
  uint64_t bytes;                 /* told; not looked at where a type is given */
} npubank_type;

/* ---- stored tensors (lazy_tensor/formats/open_index.h) ---- */

typedef struct npubank_stored {
  size_t struct_size;
  const char* name;
  const char* file;
  uint64_t offset; /* in the file */
  npubank_type type;
  uint32_t block_format; /* of GGUF blocks: ggml's number, and the type is rows of bytes; 0: numbers */
} npubank_stored;

/* A safetensors or GGUF file, or a folder of shards. Reads headers, no tensor. NOT_FOUND, INVALID_ARGUMENT: what the
 * files get wrong. */
NPUBANK_API npubank_error* npubank_index_open(const char* path, npubank_index** out);
NPUBANK_API void npubank_index_free(npubank_index* index);
NPUBANK_API size_t npubank_index_count(const npubank_index* index);
/* The tensor of this number, in the files' order; OUT_OF_RANGE. Set out->struct_size. */
NPUBANK_API npubank_error* npubank_index_get(const npubank_index* index, size_t number, npubank_stored* out);
NPUBANK_API npubank_error* npubank_index_find(const npubank_index* index, const char* name, npubank_stored* out);

/* ---- lazy tensors (lazy_tensor/lazy_tensor.h; recipe.h has the rules of each operation) ----
 * Nothing is read before a tensor is evaluated or loaded. INVALID_ARGUMENT: types that do not fit; FAILED_PRECONDITION:
 * an operation on what was detached. `to` is an npubank_element. */

NPUBANK_API npubank_error* npubank_tensor_stored(const npubank_index* index, const char* name, npubank_tensor** out);
/* Bytes of the caller's, copied. Their number must be the type's. */
NPUBANK_API npubank_error* npubank_tensor_from_bytes(const npubank_type* type, const void* bytes, size_t size,
                                                     const char* name, npubank_tensor** out);
NPUBANK_API npubank_error* npubank_tensor_splat(const npubank_type* type, uint64_t bits, npubank_tensor** out);
NPUBANK_API npubank_error* npubank_tensor_concat(const npubank_tensor* const* inputs, size_t count, int axis,
                                                 npubank_tensor** out);
NPUBANK_API npubank_error* npubank_tensor_slice(const npubank_tensor* tensor, const int64_t* start, const int64_t* size,
                                                size_t rank, npubank_tensor** out);
NPUBANK_API npubank_error* npubank_tensor_reshape(const npubank_tensor* tensor, const int64_t* dims, size_t rank,
                                                  npubank_tensor** out);
NPUBANK_API npubank_error* npubank_tensor_permute(const npubank_tensor* tensor, const int* order, size_t rank,
                                                  npubank_tensor** out);
NPUBANK_API npubank_error* npubank_tensor_convert(const npubank_tensor* tensor, uint32_t to, npubank_tensor** out);
/* (tensor - zero) * scale; `zero` may be NULL. */
NPUBANK_API npubank_error* npubank_tensor_unpack(const npubank_tensor* tensor, const npubank_tensor* scale,
                                                 const npubank_tensor* zero, uint32_t to, npubank_tensor** out);
NPUBANK_API npubank_error* npubank_tensor_gather(const npubank_tensor* tensor, const npubank_tensor* table,
                                                 npubank_tensor** out);
NPUBANK_API npubank_error* npubank_tensor_shift(const npubank_tensor* tensor, npubank_tensor** out);
/* layout: 1 rows, 2 columns, 3 columns stored one too small, 4 AWQ's columns, 5 bytes, 6 bytes stored one too
 * small, 7 rows of bytes. */
NPUBANK_API npubank_error* npubank_tensor_unpack_nibbles(const npubank_tensor* tensor, uint32_t layout,
                                                         npubank_tensor** out);
/* format: ggml's number of the block type. */
NPUBANK_API npubank_error* npubank_tensor_dequantize_blocks(const npubank_tensor* tensor, uint32_t format,
                                                            uint32_t to, npubank_tensor** out);
/* plane: 0 numbers, 1 scales, 2 minima. */
NPUBANK_API npubank_error* npubank_tensor_copy_block_plane(const npubank_tensor* tensor, uint32_t format, uint32_t plane,
                                                           npubank_tensor** out);

NPUBANK_API npubank_error* npubank_tensor_type(const npubank_tensor* tensor, npubank_type* out);
/* The key in a bank, the same in every process; 0 for NULL. */
NPUBANK_API uint64_t npubank_tensor_uid(const npubank_tensor* tensor);
NPUBANK_API npubank_error* npubank_tensor_digest(const npubank_tensor* tensor, uint64_t out[2]);
/* 1 when only type and digest are left: a bank has what it needs, or npubank_tensor_detach was called. */
NPUBANK_API int npubank_tensor_detached(const npubank_tensor* tensor);
NPUBANK_API void npubank_tensor_detach(npubank_tensor* tensor);
/* The bytes, into memory of the caller's, `size` of them: the type's bytes. On this thread. */
NPUBANK_API npubank_error* npubank_tensor_evaluate(const npubank_tensor* tensor, void* out, size_t size);
NPUBANK_API void npubank_tensor_free(npubank_tensor* tensor);

/* ---- device memory (bank/device_memory.h) ---- */

typedef struct npubank_host_options {
  size_t struct_size;
  uint64_t capacity; /* 0: no limit */
} npubank_host_options;

typedef struct npubank_npu_options {
  size_t struct_size;
  const char* device;          /* "auto" (NULL), "software", "hardware" */
  const char* strategy;        /* "auto" (NULL), "committed", "placed", "tiled", "imported" */
  uint64_t argument_alignment; /* 0: what the device says */
} npubank_npu_options;

/* What an allocation of the embedder's is. */
typedef struct npubank_allocation {
  size_t struct_size;
  void* handle;            /* given back to the callbacks; may be anything */
  void* address;           /* what a device's argument takes; not NULL */
  uint64_t reserved_bytes; /* what it costs; 0: as asked for */
  void* host_bytes;        /* the memory itself where the host may write it; NULL: through `write` */
} npubank_allocation;

/* Where a tensor should lie. A hint is met or refused, never ignored. (MemoryHints) */
typedef struct npubank_memory_hints {
  size_t struct_size;
  uint64_t alignment; /* of the address: a power of two; 0: what the memory gives everything */
  uint64_t pool;      /* of the memory's own, by a number that means something to it alone; 0: any */
} npubank_memory_hints;

/* Callbacks of an embedder's device memory; `user` goes to each. They may be called from several threads at once. A
 * returned error (npubank_error_new) is taken over. RESOURCE_EXHAUSTED makes the bank evict and try again. */
typedef struct npubank_memory_callbacks {
  size_t struct_size;
  void* user;
  const char* name;            /* for messages; copied */
  uint64_t argument_alignment; /* of every address; 0: 64 */
  npubank_error* (*allocate)(void* user, uint64_t bytes, const char* tensor, npubank_allocation* out);
  void (*release)(void* user, void* handle);
  /* Bytes to, or from, [offset, offset + size) of an allocation. `write` may be NULL where every allocation has
   * host_bytes, and `read` too. */
  npubank_error* (*write)(void* user, void* handle, uint64_t offset, const void* bytes, size_t size);
  npubank_error* (*read)(void* user, void* handle, uint64_t offset, void* bytes, size_t size);
  void (*trim)(void* user); /* gives back what is kept for reuse; may be NULL */
  void (*drop)(void* user); /* called once, when nothing will be called any more; may be NULL */
  /* In place of `allocate`, where hints ask for a larger alignment than the memory's, or for a pool: as they say, or an
   * error, UNIMPLEMENTED for what it cannot do. NULL: such a tensor is refused when it is registered. */
  npubank_error* (*allocate_with)(void* user, uint64_t bytes, const char* tensor, const npubank_memory_hints* hints,
                                  npubank_allocation* out);
} npubank_memory_callbacks;

typedef struct npubank_usage {
  size_t struct_size;
  uint64_t live_bytes; /* as they are rounded */
  uint64_t peak_bytes;
  uint64_t live_allocations;
  uint64_t imported_bytes;
} npubank_usage;

/* Plain memory of the host. */
NPUBANK_API npubank_error* npubank_memory_host(const npubank_host_options* options, npubank_memory** out);
/* An NPU through Level Zero, or the software NPU. UNAVAILABLE, NOT_FOUND: no driver; the text says what to install. */
NPUBANK_API npubank_error* npubank_memory_npu(const npubank_npu_options* options, npubank_memory** out);
/* On failure `drop` is not called. */
NPUBANK_API npubank_error* npubank_memory_custom(const npubank_memory_callbacks* callbacks, npubank_memory** out);
NPUBANK_API npubank_error* npubank_memory_usage(const npubank_memory* memory, npubank_usage* out);
NPUBANK_API void npubank_memory_free(npubank_memory* memory);

/* ---- bank (bank/bank.h) ---- */

/* The embedder's threads. */
typedef struct npubank_executor {
  size_t struct_size;
  void* user;
  int count; /* how many pieces may run at once, the caller's included */
  /* Calls work(argument) at least once and at most `times` times, on any threads, and returns when all have returned. */
  void (*run)(void* user, int64_t times, void (*work)(void* argument), void* argument);
  void (*drop)(void* user); /* called once, when nothing will be called any more; may be NULL */
} npubank_executor;

typedef struct npubank_bank_options {
  size_t struct_size;
  uint64_t budget_bytes;           /* of the device, for weights; 0: no limit */
  int keep_unowned;                /* what nobody owns stays until its room is needed */
  int keep_equal_content_apart;    /* tensors of equal bytes do not share an allocation */
  int threads;                     /* of the bank's own, that evaluate; 0: the thread that loads */
  const npubank_executor* executor; /* in their place; copied */
  const char* cache_path;          /* evaluated tensors of earlier runs; see npubank_bank_save_cache */
  uint64_t cache_limit_bytes;      /* 0: none */
} npubank_bank_options;

typedef struct npubank_load_options {
  size_t struct_size;
  void* user;
  /* After each tensor. It may call the bank, but not load. */
  void (*progress)(void* user, uint64_t bytes_done, uint64_t bytes_total, const char* tensor);
  /* Not 0: the load ends with CANCELLED. Called from several threads. */
  int (*cancelled)(void* user);
} npubank_load_options;

typedef struct npubank_sleep_options {
  size_t struct_size;
  int keep_host_copy;
} npubank_sleep_options;

typedef struct npubank_sleep_report {
  size_t struct_size;
  uint64_t bytes_given_back;
  uint64_t bytes_of_others_awake;
  uint64_t bytes_leased;
  uint64_t bytes_without_way_back;
} npubank_sleep_report;

typedef struct npubank_totals {
  size_t struct_size;
  uint64_t unique_tensors;
  uint64_t unique_bytes;
  uint64_t resident_bytes;
  uint64_t device_bytes;
  uint64_t registrations;
  uint64_t hits;
  uint64_t shared_bytes_saved;
  uint64_t evaluations;
  uint64_t waits;
  uint64_t evictions;
  uint64_t transformations;
  uint64_t cache_hits;
  uint64_t budget;
  uint64_t budget_used;
} npubank_totals;

/* What is known of one tensor. */
typedef struct npubank_tensor_state {
  size_t struct_size;
  uint64_t bytes;
  uint64_t device_bytes;
  uint64_t leases;
  uint64_t owners;
  char state[16]; /* "registered", "evaluating", "resident", "evicted", "failed" */
  uint64_t alignment; /* what its owners' hints ask for together, beyond what the memory gives everything; 0: nothing */
  uint64_t pool;
} npubank_tensor_state;

/* `memory` may be shared by several banks. `executor.drop` is not called on failure. */
NPUBANK_API npubank_error* npubank_bank_create(npubank_memory* memory, const npubank_bank_options* options,
                                               npubank_bank** out);
NPUBANK_API void npubank_bank_free(npubank_bank* bank);

/* Who registers. `index` brings evicted tensors back; NULL: they do not leave. Freeing it releases its tensors. */
NPUBANK_API npubank_error* npubank_owner_add(npubank_bank* bank, const char* name, const npubank_index* index,
                                             npubank_owner** out);
NPUBANK_API void npubank_owner_free(npubank_owner* owner);
/* Makes a tensor known; `hit` (may be NULL): known already. `uid` may be NULL. */
NPUBANK_API npubank_error* npubank_bank_register(npubank_bank* bank, const npubank_owner* owner,
                                                 const npubank_tensor* tensor, const char* name, uint64_t* uid, int* hit);
/* The same, with where its memory should lie; `hints` may be NULL. Of several owners the largest alignment counts.
 * UNIMPLEMENTED: the memory cannot; FAILED_PRECONDITION: it is elsewhere and cannot leave, or another owner has it in
 * another pool; INVALID_ARGUMENT: no power of two. (Bank::Register) */
NPUBANK_API npubank_error* npubank_bank_register_with(npubank_bank* bank, const npubank_owner* owner,
                                                      const npubank_tensor* tensor, const char* name,
                                                      const npubank_memory_hints* hints, uint64_t* uid, int* hit);

/* Everything of these owners on the device, and leased: owner after owner, in the order of registration. Owners that
 * sleep are awake afterwards. RESOURCE_EXHAUSTED: no room; DATA_LOSS: a file has changed; CANCELLED. */
NPUBANK_API npubank_error* npubank_bank_load(npubank_bank* bank, const npubank_owner* const* owners, size_t count,
                                             const npubank_load_options* options, npubank_leases** out);
/* One tensor, under an owner that goes with its lease. */
NPUBANK_API npubank_error* npubank_bank_load_one(npubank_bank* bank, const char* name, const npubank_tensor* tensor,
                                                 const npubank_load_options* options, npubank_lease** out);
/* A load whose leases are dropped: everything is there, and may leave for others' room. */
NPUBANK_API npubank_error* npubank_bank_wake(npubank_bank* bank, const npubank_owner* const* owners, size_t count,
                                             const npubank_load_options* options);
/* One tensor that is registered. NOT_FOUND. */
NPUBANK_API npubank_error* npubank_bank_get(npubank_bank* bank, uint64_t uid, npubank_lease** out);
/* Device bytes [offset, offset + size) of a tensor, to the host. OUT_OF_RANGE. */
NPUBANK_API npubank_error* npubank_bank_read(npubank_bank* bank, uint64_t uid, uint64_t offset, void* out, size_t size);
/* Makes nothing resident. NOT_FOUND. */
NPUBANK_API npubank_error* npubank_bank_inspect(const npubank_bank* bank, uint64_t uid, npubank_tensor_state* out);

/* Gives the device bytes of what only these owners have back. `report` may be NULL. */
NPUBANK_API npubank_error* npubank_bank_sleep(npubank_bank* bank, const npubank_owner* const* owners, size_t count,
                                              const npubank_sleep_options* options, npubank_sleep_report* report);
/* `bytes` (may be NULL): of the host, given back. */
NPUBANK_API npubank_error* npubank_bank_drop_host_copies(npubank_bank* bank, const npubank_owner* const* owners,
                                                         size_t count, uint64_t* bytes);
/* 1: idle tensors of at least so many bytes have left; 0: there were not as many, and nothing has. */
NPUBANK_API int npubank_bank_evict(npubank_bank* bank, uint64_t bytes);
/* Drops what nobody owns any more; device bytes given back. */
NPUBANK_API uint64_t npubank_bank_trim(npubank_bank* bank);
/* 0: no limit. RESOURCE_EXHAUSTED: more is in use and cannot leave; the budget stays. */
NPUBANK_API npubank_error* npubank_bank_set_budget(npubank_bank* bank, uint64_t bytes);

NPUBANK_API npubank_error* npubank_bank_totals(const npubank_bank* bank, npubank_totals* out);
/* Everything the bank knows, as a file for bank-inspect. Written whole or not at all. */
NPUBANK_API npubank_error* npubank_bank_save_snapshot(const npubank_bank* bank, const char* path);
/* Proves the books against the device's counts; INTERNAL: what differs, a line each. `other_device_bytes`: what others
 * hold in the same memory. While nothing loads. (bank/books/audit.h) */
NPUBANK_API npubank_error* npubank_bank_audit(const npubank_bank* bank, uint64_t other_device_bytes);
/* Writes what was transformed for the next run. Nothing to do without a cache. The old file stays on failure. */
NPUBANK_API npubank_error* npubank_bank_save_cache(npubank_bank* bank);

/* ---- leases (bank/lease.h) ---- */

typedef struct npubank_lease_facts {
  size_t struct_size;
  void* address;          /* what a device's argument takes; never to be dereferenced; NULL for 0 bytes */
  uint64_t uid;
  npubank_type type;
  uint64_t device_bytes;  /* as the strategy rounds them */
  const char* strategy;   /* "placed", "imported", "host", ... */
  const void* host_bytes; /* the bytes where the host may read them; else NULL. Never written to. */
  /* Where they lie in a file whose pages they are; else -1 and NULL. The descriptor is not the caller's to close. */
  int file_descriptor;
  const char* file_path;
  uint64_t file_offset;
  int file_page_aligned; /* 1: the offset is a multiple of 4096 and can be mapped as it is */
} npubank_lease_facts;

NPUBANK_API size_t npubank_leases_count(const npubank_leases* leases);
/* One of them, the caller's from now on: it stays when the list is freed. OUT_OF_RANGE. */
NPUBANK_API npubank_error* npubank_leases_get(const npubank_leases* leases, size_t number, npubank_lease** out);
NPUBANK_API void npubank_leases_free(npubank_leases* leases);
/* What is told is valid while the lease lives. */
NPUBANK_API npubank_error* npubank_lease_get_facts(const npubank_lease* lease, npubank_lease_facts* out);
/* The bytes may leave, or go, from now on. */
NPUBANK_API void npubank_lease_free(npubank_lease* lease);

#ifdef __cplusplus
}
#endif

#endif /* NPUBANK_RUNTIME_C_NPUBANK_H_ */
