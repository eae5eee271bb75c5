#include <new>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/live_objects.h"
#include "npubank/lazy_tensor/base/log.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/runtime/c/handles.h"
#include "npubank/version.h"

namespace npubank::c {
namespace {

// No struct of any version is larger: what says so is not a size, but what lay on a stack.
constexpr size_t kMostStructBytes = 4096;

// Made before memory runs out; never freed.
npubank_error& TheOutOfMemory() {
  static npubank_error& error =
      *new npubank_error{NPUBANK_RESOURCE_EXHAUSTED, "the host has no memory left"};
  return error;
}
[[maybe_unused]] const npubank_error& kMadeEarly = TheOutOfMemory();

}  // namespace

npubank_error* OutOfMemory() { return &TheOutOfMemory(); }

npubank_error* ErrorOf(const absl::Status& status) {
  if (status.ok()) return nullptr;
  return new npubank_error{static_cast<npubank_code>(status.code()), std::string(status.message())};
}

absl::Status TakeStatus(npubank_error* error) {
  if (error == nullptr) return absl::OkStatus();
  absl::Status status(static_cast<absl::StatusCode>(error->code), error->text);
  npubank_error_free(error);
  return status;
}

absl::Status Needs(std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments) {
    if (argument.pointer != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", argument.name, "' is NULL"));
  }
  return absl::OkStatus();
}

absl::Status CheckSize(size_t given, size_t known, const void* bytes, const char* name) {
  if (given < sizeof(size_t) || given > kMostStructBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("struct_size of ", name, " is ", given, ": set it with NPUBANK_INIT"));
  }
  const char* const end = static_cast<const char*>(bytes) + std::max(given, known);
  for (const char* at = static_cast<const char*>(bytes) + known; at < end; ++at) {
    if (*at == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " asks for what this library (",
                                                   NPUBANK_VERSION, ") does not know: update it"));
  }
  return absl::OkStatus();
}

}  // namespace npubank::c

using npubank::c::Guarded;
using npubank::c::Needs;

const char* npubank_version(void) { return NPUBANK_VERSION; }

npubank_error* npubank_error_new(uint32_t code, const char* text) {
  const bool known = code > NPUBANK_OK && code <= NPUBANK_DATA_LOSS;
  try {
    return new npubank_error{known ? static_cast<npubank_code>(code) : NPUBANK_UNKNOWN,
                             text == nullptr ? "" : text};
  } catch (...) {
    return npubank::c::OutOfMemory();
  }
}

npubank_code npubank_error_code(const npubank_error* error) {
  return error == nullptr ? NPUBANK_OK : error->code;
}

const char* npubank_error_text(const npubank_error* error) {
  return error == nullptr ? "" : error->text.c_str();
}

void npubank_error_free(npubank_error* error) {
  if (error != npubank::c::OutOfMemory()) delete error;
}

void npubank_set_log(void (*log)(void* user, const char* line), void* user) {
  if (log == nullptr) return npubank::SetLogSink(nullptr);
  npubank::SetLogSink(
      [log, user](absl::string_view line) { log(user, std::string(line).c_str()); });
}

npubank_error* npubank_live_objects(void (*visit)(void* user, const char* what, uint64_t count),
                                    void* user) {
  return Guarded([&]() -> absl::Status {
    NPUBANK_RETURN_IF_ERROR(Needs({{reinterpret_cast<const void*>(visit), "visit"}}));
    for (const auto& [what, count] : npubank::LiveObjects()) visit(user, what.c_str(), count);
    return absl::OkStatus();
  });
}
