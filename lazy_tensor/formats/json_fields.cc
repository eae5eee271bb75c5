#include "npubank/lazy_tensor/formats/json_fields.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/formats/json.h"

namespace npubank {

using Json = nlohmann::json;

const Json* JsonFields::Get(const char* key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

int64_t JsonFields::Int(const char* key, int64_t min, int64_t max) {
  if (Get(key) == nullptr) Fail(key, "is missing");
  return Int(key, min, max, min);
}

int64_t JsonFields::Int(const char* key, int64_t min, int64_t max, int64_t absent) {
  const Json* value = Get(key);
  return value == nullptr ? absent : IntOf(*value, key, min, max);
}

int64_t JsonFields::IntOf(const Json& value, const char* key, int64_t min, int64_t max) {
  // is_number_integer() holds for both signs; a value beyond int64 is unsigned and over every max.
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(max)
                                               : value.is_number_integer();
  if (fits && value.get<int64_t>() >= min && value.get<int64_t>() <= max) {
    return value.get<int64_t>();
  }
  Fail(key, absl::StrCat("must be a whole number from ", min, " to ", max));
  return min;
}

double JsonFields::Number(const char* key, double min, double max) {
  if (Get(key) == nullptr) Fail(key, "is missing");
  return Number(key, min, max, min);
}

double JsonFields::Number(const char* key, double min, double max, double absent) {
  const Json* value = Get(key);
  if (value == nullptr) return absent;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (number >= min && number <= max) return number;
  Fail(key, absl::StrCat("must be a number from ", min, " to ", max));
  return absent;
}

bool JsonFields::Bool(const char* key, bool absent) {
  const Json* value = Get(key);
  if (value == nullptr) return absent;
  if (value->is_boolean()) return value->get<bool>();
  Fail(key, "must be true or false");
  return absent;
}

std::string JsonFields::Text(const char* key, const char* absent) {
  const Json* value = Get(key);
  if (value == nullptr) return absent;
  if (value->is_string()) return value->get<std::string>();
  Fail(key, "must be a string");
  return absent;
}

std::string JsonFields::Text(const char* key) {
  std::string text = Need(key) == nullptr ? "" : Text(key, "");
  if (text.empty()) Fail(key, "must be a string that is not empty");
  return text;
}

std::vector<int64_t> JsonFields::Ints(const char* key, int64_t min, int64_t max, size_t most) {
  const Json* list = Need(key);
  if (list == nullptr) return {};
  if (!list->is_array() || list->size() > most) {
    Fail(key, absl::StrCat("must be a list of at most ", most, " whole numbers"));
    return {};
  }
  std::vector<int64_t> numbers;
  for (const Json& value : *list) numbers.push_back(IntOf(value, key, min, max));
  return numbers;
}

const Json* JsonFields::Need(const char* key) {
  const Json* value = Get(key);
  if (value == nullptr) Fail(key, "is missing");
  return value;
}

const Json& JsonFields::List(const char* key) {
  static const Json& empty = *new Json(Json::array());
  const Json* value = Get(key);
  if (value == nullptr) return empty;
  if (value->is_array()) return *value;
  Fail(key, "must be a list");
  return empty;
}

void JsonFields::OnlyKeys(std::initializer_list<absl::string_view> known) {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end() || !status_.ok()) continue;
    status_ = absl::InvalidArgumentError(absl::StrCat(file_, ": ", Quote(key), " is not known"));
  }
}

void JsonFields::Fail(const char* key, absl::string_view what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(file_, ": '", key, "' ", what));
}

}  // namespace npubank
