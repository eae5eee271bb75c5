#include "npubank/tools/tokenizers/json/part.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/formats/json.h"

namespace npubank {

using Json = nlohmann::json;

Part::Part(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object_.is_object())
    status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": must be an object"));
}

const Json* Part::Get(const char* key) {
  asked_.insert(key);
  if (!object_.is_object()) return nullptr;
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::string Part::Text(const char* key) {
  const Json* value = Get(key);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  Fail(key, "must be a string");
  return "";
}

std::string Part::Text(const char* key, const char* absent) {
  return Get(key) == nullptr ? absent : Text(key);
}

bool Part::Bool(const char* key, bool absent) {
  const Json* value = Get(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) Fail(key, "must be true or false");
  return value->is_boolean() ? value->get<bool>() : absent;
}

int64_t Part::Int(const char* key, int64_t min, int64_t max, int64_t absent) {
  const Json* value = Get(key);
  if (value == nullptr) return absent;
  // An unsigned number that does not fit turns negative.
  const int64_t number = value->is_number_integer() ? value->get<int64_t>() : min - 1;
  if (number >= min && number <= max) return number;
  Fail(key, absl::StrCat("must be a whole number from ", min, " to ", max));
  return absent;
}

const Json& Part::List(const char* key) {
  static const Json empty = Json::array();
  const Json* value = Get(key);
  if (value != nullptr && value->is_array()) return *value;
  Fail(key, "must be a list");
  return empty;
}

void Part::Ignore(std::initializer_list<const char*> keys) {
  for (const char* key : keys) asked_.insert(key);
}

void Part::Only(const char* key, const Json& value) {
  const Json* found = Get(key);
  if (found != nullptr && *found != value)
    Fail(key, absl::StrCat("is not supported unless it is ",
                           value.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

void Part::Fail(const char* key, absl::string_view what) {
  status_.Update(absl::InvalidArgumentError(absl::StrCat(where_, ": '", key, "' ", what)));
}

absl::Status Part::Done() const {
  if (!status_.ok()) return status_;
  for (const auto& [key, value] : object_.items()) {
    if (asked_.count(key) == 0)
      return absl::UnimplementedError(
          absl::StrCat(where_, ": ", Quote(key), " is not known, and may change what comes out"));
  }
  return absl::OkStatus();
}

absl::Status UnknownType(const std::string& where, absl::string_view type,
                         absl::string_view known) {
  return absl::UnimplementedError(
      absl::StrCat(where, ": type ", Quote(type), " is not supported; supported are ", known));
}

}  // namespace npubank
