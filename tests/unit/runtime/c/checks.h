/* What tests in C use: a check that says where it failed, and ends the program. */
#ifndef NPUBANK_TESTS_UNIT_RUNTIME_C_CHECKS_H_
#define NPUBANK_TESTS_UNIT_RUNTIME_C_CHECKS_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npubank/runtime/c/npubank.h"

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

/* That it succeeded. */
#define OK(call) ExpectCode((call), NPUBANK_OK, NULL, __FILE__, __LINE__)
/* That it failed so, and said this; the error is freed. */
#define FAILS(call, code, text) ExpectCode((call), (code), (text), __FILE__, __LINE__)

static inline void ExpectCode(npubank_error* error, npubank_code code, const char* text,
                              const char* file, int line) {
  if (npubank_error_code(error) != code ||
      (text != NULL && strstr(npubank_error_text(error), text) == NULL)) {
    fprintf(stderr, "%s:%d: code %d '%s', not %d '%s'\n", file, line,
            (int)npubank_error_code(error), npubank_error_text(error), (int)code,
            text == NULL ? "" : text);
    exit(1);
  }
  npubank_error_free(error);
}

#endif /* NPUBANK_TESTS_UNIT_RUNTIME_C_CHECKS_H_ */
