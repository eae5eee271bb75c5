// JsonFields: the values of one JSON object by key, checked.
//
//   JsonFields fields(object, "config.json");
//   config.layers = fields.Int("num_hidden_layers", 1, 1024);
//   config.tied = fields.Bool("tie_word_embeddings", false);
//   NPUBANK_RETURN_IF_ERROR(fields.status());
//
// The first fault is kept and turns later answers into something harmless, so that a reader can be a list of fields
// with one check at its end. JSON null means absent. Private to the rooms that read JSON: this one, runtime/manifest
// and tools/tokenizers. The object must outlive this. Errors: InvalidArgument naming the file and the key.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_JSON_FIELDS_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_JSON_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace npubank {

class JsonFields {
 public:
  // `object` is a JSON object.
  JsonFields(const nlohmann::json& object, std::string file)
      : object_(object), file_(std::move(file)) {}

  const absl::Status& status() const { return status_; }
  const std::string& file() const { return file_; }
  // The value, or null when it is absent or JSON null.
  const nlohmann::json* Get(const char* key) const;

  // A whole number from min to max; the first form needs the key.
  int64_t Int(const char* key, int64_t min, int64_t max);
  int64_t Int(const char* key, int64_t min, int64_t max, int64_t absent);
  // The same for an element of a list under the key.
  int64_t IntOf(const nlohmann::json& value, const char* key, int64_t min, int64_t max);
  double Number(const char* key, double min, double max);
  double Number(const char* key, double min, double max, double absent);
  bool Bool(const char* key, bool absent);
  // The first form needs the key, and a string that is not empty.
  std::string Text(const char* key);
  std::string Text(const char* key, const char* absent);
  // At most `most` whole numbers in a list, which must be there.
  std::vector<int64_t> Ints(const char* key, int64_t min, int64_t max, size_t most);
  // Whatever it is, it must be there: null, and a fault, when it is not.
  const nlohmann::json* Need(const char* key);
  // A list of objects or lists; empty where it is absent.
  const nlohmann::json& List(const char* key);
  // Any other key is a fault.
  void OnlyKeys(std::initializer_list<absl::string_view> known);

  // Records a fault, `"key" what`, unless there is one already.
  void Fail(const char* key, absl::string_view what);
  // Takes over the fault of another check, as of a nested object.
  void Adopt(const absl::Status& fault) { status_.Update(fault); }

 private:
  const nlohmann::json& object_;
  std::string file_;
  absl::Status status_;
};

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_JSON_FIELDS_H_
