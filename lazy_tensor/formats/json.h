// JSON from outside: parsed within bounds, so that a hostile file costs little and crashes nothing.
//
//   NPUBANK_ASSIGN_OR_RETURN(std::string text, ReadTextFile("model/config.json", 1 << 20));
//   NPUBANK_ASSIGN_OR_RETURN(nlohmann::json root, ParseJson(text, "model/config.json"));
//
// Private to the rooms that read JSON, this one, runtime/manifest and tools/tokenizers: public
// headers do not show nlohmann types. Parsing stops at the first fault. Limits: kMaxJsonDepth
// levels, kMaxJsonValues values (what a text of one or two bytes per value could blow up to);
// a key that appears twice in one object is an error, since readers disagree on it. Errors:
// InvalidArgument naming the file and the byte where it went wrong; whatever Source returns.
#ifndef NPUBANK_LAZY_TENSOR_FORMATS_JSON_H_
#define NPUBANK_LAZY_TENSOR_FORMATS_JSON_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace npubank {

inline constexpr size_t kMaxJsonDepth = 64;
inline constexpr size_t kMaxJsonValues = size_t{1} << 22;
inline constexpr uint64_t kMaxConfigJsonBytes = 1 << 20;  // of a config.json

absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, const std::string& file);

// The whole file; InvalidArgument when it is larger than max_bytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, uint64_t max_bytes);

// Text from a file as it may appear in a message: quoted, escaped, and cut when long.
std::string Quote(absl::string_view text);

}  // namespace npubank

#endif  // NPUBANK_LAZY_TENSOR_FORMATS_JSON_H_
