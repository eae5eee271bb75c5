/* Errors, stored tensors, and every operation of lazy tensors, from C. Argument: a folder to write in. */
#include "npubank/tests/unit/runtime/c/checks.h"

static npubank_type Type(npubank_element element, uint32_t rank, int64_t rows, int64_t columns) {
  npubank_type type;
  memset(&type, 0, sizeof type);
  type.element = (uint32_t)element;
  type.rank = rank;
  type.dims[0] = rows;
  type.dims[1] = columns;
  return type;
}

static npubank_tensor* FromBytes(npubank_type type, const void* bytes, size_t size) {
  npubank_tensor* tensor = NULL;
  OK(npubank_tensor_from_bytes(&type, bytes, size, "made", &tensor));
  return tensor;
}

/* Evaluates, compares and frees. */
static void ExpectBytes(npubank_tensor* tensor, const void* expected, size_t size) {
  char got[256];
  CHECK(size <= sizeof got);
  OK(npubank_tensor_evaluate(tensor, got, size));
  CHECK(memcmp(got, expected, size) == 0);
  npubank_tensor_free(tensor);
}

static void ErrorsHaveCodeAndText(void) {
  npubank_error* error = npubank_error_new(NPUBANK_DATA_LOSS, "gone");
  CHECK(npubank_error_code(error) == NPUBANK_DATA_LOSS);
  CHECK(strcmp(npubank_error_text(error), "gone") == 0);
  npubank_error_free(error);
  FAILS(npubank_error_new(NPUBANK_OK, NULL), NPUBANK_UNKNOWN, "");
  FAILS(npubank_error_new((npubank_code)99, "odd"), NPUBANK_UNKNOWN, "odd");
  CHECK(npubank_error_code(NULL) == NPUBANK_OK);
  CHECK(strcmp(npubank_error_text(NULL), "") == 0);
  npubank_error_free(NULL);
  CHECK(strcmp(npubank_version(), "0.1.0") == 0);
}

static void OperationsThatMoveElements(void) {
  const float numbers[6] = {0, 1, 2, 3, 4, 5};
  const float transposed[6] = {0, 3, 1, 4, 2, 5}, middle[2] = {1, 4};
  const float twice[12] = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5};
  const int order[2] = {1, 0};
  const int64_t start[2] = {0, 1}, size[2] = {2, 1}, flat[1] = {6};
  npubank_tensor* made = FromBytes(Type(NPUBANK_F32, 2, 2, 3), numbers, sizeof numbers);
  npubank_tensor* out = NULL;
  OK(npubank_tensor_permute(made, order, 2, &out));
  ExpectBytes(out, transposed, sizeof transposed);
  OK(npubank_tensor_slice(made, start, size, 2, &out));
  ExpectBytes(out, middle, sizeof middle);
  OK(npubank_tensor_reshape(made, flat, 1, &out));
  ExpectBytes(out, numbers, sizeof numbers);
  const npubank_tensor* both[2] = {made, made};
  OK(npubank_tensor_concat(both, 2, 0, &out));
  ExpectBytes(out, twice, sizeof twice);
  FAILS(npubank_tensor_permute(made, order, 1, &out), NPUBANK_INVALID_ARGUMENT, "ermute");
  FAILS(npubank_tensor_slice(made, size, size, 2, &out), NPUBANK_INVALID_ARGUMENT, "lice");
  FAILS(npubank_tensor_reshape(made, size, 2, &out), NPUBANK_INVALID_ARGUMENT, "eshape");
  FAILS(npubank_tensor_concat(both, 2, 7, &out), NPUBANK_INVALID_ARGUMENT, "oncat");
  FAILS(npubank_tensor_concat(both, 0, 0, &out), NPUBANK_INVALID_ARGUMENT, "oncat");
  for (size_t rank = NPUBANK_MAX_RANK + 1; rank != 0; rank *= 16) { /* a minus one that became a size, say */
    FAILS(npubank_tensor_permute(made, order, rank, &out), NPUBANK_INVALID_ARGUMENT, "at most 8");
    FAILS(npubank_tensor_slice(made, start, size, rank, &out), NPUBANK_INVALID_ARGUMENT, "at most 8");
    FAILS(npubank_tensor_reshape(made, flat, rank, &out), NPUBANK_INVALID_ARGUMENT, "at most 8");
  }
  both[1] = NULL;
  FAILS(npubank_tensor_concat(both, 2, 0, &out), NPUBANK_INVALID_ARGUMENT, "NULL");
  npubank_tensor_free(made);
}

static void OperationsThatCompute(void) {
  const unsigned char bytes[4] = {0, 1, 130, 255}, shifted[4] = {128, 129, 2, 127};
  const float scale[1] = {2}, unpacked[4] = {0, 2, 260, 510};
  const unsigned char indices[2] = {0x01, 0x10};
  const float table[16] = {7, 9}, gathered[4] = {9, 7, 7, 9};
  const uint16_t halves[4] = {0, 0x3C00, 0x5810, 0x5BF8};
  const uint32_t word[1] = {0x76543210};
  const unsigned char nibbles[4] = {0x10, 0x32, 0x54, 0x76};
  npubank_tensor *made = FromBytes(Type(NPUBANK_U8, 2, 1, 4), bytes, 4), *out = NULL;
  npubank_tensor* by = FromBytes(Type(NPUBANK_F32, 2, 1, 1), scale, sizeof scale);
  npubank_tensor* from = FromBytes(Type(NPUBANK_F32, 1, 16, 0), table, sizeof table);
  npubank_tensor* at = FromBytes(Type(NPUBANK_U4, 1, 4, 0), indices, 2);
  npubank_tensor* words = FromBytes(Type(NPUBANK_I32, 2, 1, 1), word, sizeof word);
  OK(npubank_tensor_shift(made, &out));
  ExpectBytes(out, shifted, 4);
  OK(npubank_tensor_unpack(made, by, NULL, NPUBANK_F32, &out));
  ExpectBytes(out, unpacked, sizeof unpacked);
  OK(npubank_tensor_gather(at, from, &out));
  ExpectBytes(out, gathered, sizeof gathered);
  OK(npubank_tensor_unpack_nibbles(words, 2, &out));
  ExpectBytes(out, nibbles, sizeof nibbles);
  const float numbers[4] = {0, 1, 130, 255};
  npubank_tensor* floats = FromBytes(Type(NPUBANK_F32, 1, 4, 0), numbers, sizeof numbers);
  OK(npubank_tensor_convert(floats, NPUBANK_F16, &out));
  ExpectBytes(out, halves, sizeof halves);
  npubank_type pair = Type(NPUBANK_F16, 1, 2, 0);
  OK(npubank_tensor_splat(&pair, 0x3C00, &out));
  ExpectBytes(out, (const uint16_t[2]){0x3C00, 0x3C00}, 4);
  FAILS(npubank_tensor_convert(made, (npubank_element)77, &out), NPUBANK_INVALID_ARGUMENT, "77");
  FAILS(npubank_tensor_shift(floats, &out), NPUBANK_INVALID_ARGUMENT, "hift");
  FAILS(npubank_tensor_gather(floats, from, &out), NPUBANK_INVALID_ARGUMENT, "ather");
  FAILS(npubank_tensor_unpack(made, from, from, NPUBANK_F32, &out), NPUBANK_INVALID_ARGUMENT, NULL);
  FAILS(npubank_tensor_unpack_nibbles(words, 9, &out), NPUBANK_INVALID_ARGUMENT, "9");
  FAILS(npubank_tensor_splat(&pair, 0x13C00, &out), NPUBANK_INVALID_ARGUMENT, "plat");
  npubank_tensor_free(floats);
  npubank_tensor_free(words);
  npubank_tensor_free(at);
  npubank_tensor_free(from);
  npubank_tensor_free(by);
  npubank_tensor_free(made);
}

/* One block of Q8_0: a scale of 2, and 32 numbers. */
static void OperationsOnBlocks(void) {
  unsigned char block[34] = {0x00, 0x40};
  float numbers[32];
  for (int i = 0; i < 32; ++i) {
    block[2 + i] = (unsigned char)i;
    numbers[i] = 2.0f * (float)i;
  }
  npubank_tensor *made = FromBytes(Type(NPUBANK_U8, 2, 1, 34), block, sizeof block), *out = NULL;
  OK(npubank_tensor_dequantize_blocks(made, 8, NPUBANK_F32, &out));
  ExpectBytes(out, numbers, sizeof numbers);
  OK(npubank_tensor_copy_block_plane(made, 8, 0, &out));
  ExpectBytes(out, block + 2, 32);
  FAILS(npubank_tensor_dequantize_blocks(made, 8, (npubank_element)99, &out),
        NPUBANK_INVALID_ARGUMENT, "99");
  FAILS(npubank_tensor_dequantize_blocks(made, 99, NPUBANK_F32, &out), NPUBANK_INVALID_ARGUMENT,
        "99");
  FAILS(npubank_tensor_copy_block_plane(made, 99, 0, &out), NPUBANK_INVALID_ARGUMENT, "99");
  FAILS(npubank_tensor_copy_block_plane(made, 8, 3, &out), NPUBANK_INVALID_ARGUMENT, "3");
  npubank_tensor_free(made);
}

static void ATensorTellsWhatItIsAndCanBeDetached(void) {
  const float numbers[2] = {1, 2};
  npubank_tensor *made = FromBytes(Type(NPUBANK_F32, 1, 2, 0), numbers, sizeof numbers),
                 *out = NULL;
  npubank_type type;
  uint64_t digest[2] = {0, 0};
  float got[2];
  OK(npubank_tensor_type(made, &type));
  CHECK(type.element == NPUBANK_F32 && type.rank == 1 && type.dims[0] == 2 && type.bytes == 8);
  OK(npubank_tensor_digest(made, digest));
  CHECK(digest[0] != 0 && digest[1] != 0 && npubank_tensor_uid(made) != 0);
  FAILS(npubank_tensor_evaluate(made, got, 7), NPUBANK_INVALID_ARGUMENT, NULL);
  CHECK(npubank_tensor_detached(made) == 0);
  npubank_tensor_detach(made);
  CHECK(npubank_tensor_detached(made) == 1);
  FAILS(npubank_tensor_evaluate(made, got, 8), NPUBANK_FAILED_PRECONDITION, NULL);
  FAILS(npubank_tensor_convert(made, NPUBANK_F16, &out), NPUBANK_FAILED_PRECONDITION, NULL);
  npubank_tensor_free(made);
  CHECK(npubank_tensor_uid(NULL) == 0 && npubank_tensor_detached(NULL) == 0);
  npubank_tensor_detach(NULL);
  npubank_tensor_free(NULL);
}

static void TypesOfCallersAreHostile(void) {
  npubank_tensor* out = NULL;
  npubank_type type = Type(NPUBANK_F32, 9, 1, 1);
  FAILS(npubank_tensor_splat(&type, 0, &out), NPUBANK_INVALID_ARGUMENT, "rank");
  type = Type(NPUBANK_F32, 2, -1, 4);
  FAILS(npubank_tensor_splat(&type, 0, &out), NPUBANK_INVALID_ARGUMENT, NULL);
  type = Type(NPUBANK_F32, 2, INT64_MAX, INT64_MAX);
  FAILS(npubank_tensor_splat(&type, 0, &out), NPUBANK_INVALID_ARGUMENT, NULL);
  type = Type((npubank_element)0, 1, 1, 0);
  FAILS(npubank_tensor_splat(&type, 0, &out), NPUBANK_INVALID_ARGUMENT, NULL);
  type = Type(NPUBANK_F32, 1, 2, 0);
  FAILS(npubank_tensor_from_bytes(&type, "1234567", 7, "cut", &out), NPUBANK_INVALID_ARGUMENT,
        "'cut'");
  FAILS(npubank_tensor_from_bytes(&type, NULL, 8, "none", &out), NPUBANK_INVALID_ARGUMENT, "NULL");
  FAILS(npubank_tensor_splat(NULL, 0, &out), NPUBANK_INVALID_ARGUMENT, "'type' is NULL");
  FAILS(npubank_tensor_splat(&type, 0, NULL), NPUBANK_INVALID_ARGUMENT, "'out' is NULL");
  CHECK(out == NULL);
}

static void WriteCheckpoint(const char* path) {
  const char header[] =
      "{\"wq\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}       ";
  const unsigned char length[8] = {sizeof header - 1};
  const float numbers[4] = {1, 2, 3, 4};
  FILE* file = fopen(path, "wb");
  CHECK(file != NULL);
  CHECK(fwrite(length, 1, 8, file) == 8);
  CHECK(fwrite(header, 1, sizeof header - 1, file) == sizeof header - 1);
  CHECK(fwrite(numbers, 1, sizeof numbers, file) == sizeof numbers);
  CHECK(fclose(file) == 0);
}

static void StoredTensorsAreListedAndFound(const char* folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  WriteCheckpoint(path);
  npubank_index* index = NULL;
  npubank_tensor* tensor = NULL;
  npubank_stored stored = NPUBANK_INIT(npubank_stored);
  OK(npubank_index_open(path, &index));
  CHECK(npubank_index_count(index) == 1 && npubank_index_count(NULL) == 0);
  OK(npubank_index_get(index, 0, &stored));
  CHECK(strcmp(stored.name, "wq") == 0 && strcmp(stored.file, path) == 0);
  CHECK(stored.type.element == NPUBANK_F32 && stored.type.dims[1] == 2 && stored.type.bytes == 16);
  CHECK(stored.offset > 8 && stored.block_format == 0);
  FAILS(npubank_index_get(index, 1, &stored), NPUBANK_OUT_OF_RANGE, "1");
  OK(npubank_index_find(index, "wq", &stored));
  FAILS(npubank_index_find(index, "wk", &stored), NPUBANK_NOT_FOUND, "wk");
  FAILS(npubank_tensor_stored(index, "wk", &tensor), NPUBANK_NOT_FOUND, "wk");
  OK(npubank_tensor_stored(index, "wq", &tensor));
  npubank_index_free(index); /* the tensor keeps what it needs */
  ExpectBytes(tensor, (const float[4]){1, 2, 3, 4}, 16);
  FAILS(npubank_index_open("/nowhere/at/all", &index), NPUBANK_NOT_FOUND, "/nowhere/at/all");
  npubank_index_free(NULL);
}

/* A caller with an older header is told what it has room for; one with a newer gets what this library knows. */
static void OlderAndNewerStructsAreServed(const char* folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  npubank_index* index = NULL;
  OK(npubank_index_open(path, &index));
  npubank_stored older;
  memset(&older, 0x55, sizeof older);
  older.struct_size = offsetof(npubank_stored, offset);
  OK(npubank_index_find(index, "wq", &older));
  CHECK(strcmp(older.name, "wq") == 0 && older.offset == 0x5555555555555555u);
  CHECK(older.struct_size == offsetof(npubank_stored, offset));
  older.struct_size = 3;
  FAILS(npubank_index_find(index, "wq", &older), NPUBANK_INVALID_ARGUMENT, "struct_size");
  npubank_index_free(index);

  struct {
    npubank_host_options known;
    uint64_t later;
  } newer;
  memset(&newer, 0, sizeof newer);
  newer.known.struct_size = sizeof newer;
  npubank_memory* memory = NULL;
  OK(npubank_memory_host(&newer.known, &memory));
  npubank_memory_free(memory);
  newer.later = 1;
  FAILS(npubank_memory_host(&newer.known, &memory), NPUBANK_INVALID_ARGUMENT, "does not know");
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  ErrorsHaveCodeAndText();
  OperationsThatMoveElements();
  OperationsThatCompute();
  OperationsOnBlocks();
  ATensorTellsWhatItIsAndCanBeDetached();
  TypesOfCallersAreHostile();
  StoredTensorsAreListedAndFound(argv[1]);
  OlderAndNewerStructsAreServed(argv[1]);
  return 0;
}
