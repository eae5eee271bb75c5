// Part: one object of a tokenizer.json, whose every key must be known.
//
//   Part part(json, "tokenizer.json: normalizer");
//   const std::string text = part.Text("prepend");
//   NPUBANK_RETURN_IF_ERROR(part.Done());           // a key that nobody asked for is refused by name
//
// The first fault is kept; later answers are harmless. The object must outlive this. Private to this folder.
// Errors: InvalidArgument naming the part and the key, Unimplemented for a key that is not known.
#ifndef NPUBANK_TOOLS_TOKENIZERS_JSON_PART_H_
#define NPUBANK_TOOLS_TOKENIZERS_JSON_PART_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace npubank {

class Part {
 public:
  Part(const nlohmann::json& object, std::string where);

  const std::string& where() const { return where_; }
  // The value of a key, or null when it is absent or null.
  const nlohmann::json* Get(const char* key);
  std::string Text(const char* key);
  std::string Text(const char* key, const char* absent);
  bool Bool(const char* key, bool absent);
  int64_t Int(const char* key, int64_t min, int64_t max, int64_t absent);
  // The list under a key; empty when it is none.
  const nlohmann::json& List(const char* key);
  // Keys that change nothing here.
  void Ignore(std::initializer_list<const char*> keys);
  // A key that must have this value, or be absent or null.
  void Only(const char* key, const nlohmann::json& value);

  void Fail(const char* key, absl::string_view what);
  const absl::Status& status() const { return status_; }
  absl::Status Done() const;

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> asked_;
  absl::Status status_;
};

// What is refused by the name of its type.
absl::Status UnknownType(const std::string& where, absl::string_view type, absl::string_view known);

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_JSON_PART_H_
