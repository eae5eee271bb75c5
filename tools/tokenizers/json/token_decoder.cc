#include "npubank/tools/tokenizers/json/token_decoder.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/tokenizers/byte_token.h"
#include "npubank/tools/tokenizers/json/part.h"
#include "npubank/tools/tokenizers/json/pattern.h"
#include "npubank/tools/tokenizers/text/byte_text.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

constexpr char kTypes[] = "ByteLevel, Metaspace, ByteFallback, Fuse, Replace, Strip and Sequence";

}  // namespace

absl::StatusOr<TokenDecoder> TokenDecoder::Create(const Json& json, const std::string& where) {
  TokenDecoder decoder;
  if (!json.is_null()) {
    NPUBANK_RETURN_IF_ERROR(decoder.Append(json, where));
  } else {
    decoder.steps_.push_back([](std::string& token, bool first) {
      if (!first) token.insert(token.begin(), ' ');
    });
  }
  return decoder;
}

TokenDecoder TokenDecoder::OfByteText() {
  TokenDecoder decoder;
  decoder.steps_.push_back([](std::string& token, bool) { token = FromByteText(token); });
  return decoder;
}

absl::Status TokenDecoder::AppendReplace(Part& part) {
  NPUBANK_ASSIGN_OR_RETURN(const Pattern pattern, Pattern::Create(part, "pattern"));
  const std::string content = part.Text("content");
  if (pattern.text().empty()) part.Fail("pattern", "must be a string");
  // Tokens are told one by one: what is longer could begin in one and end in another.
  if (fused_) part.Fail("type", "is not supported behind Fuse");
  steps_.push_back([text = pattern.text(), content](std::string& token, bool) {
    token = absl::StrReplaceAll(token, {{text, content}});
  });
  return part.status();
}

absl::Status TokenDecoder::AppendStrip(Part& part) {
  const std::string content = part.Text("content");
  const int64_t start = part.Int("start", 0, fused_ ? 1 : 1024, 0);
  part.Int("stop", 0, 0, 0);
  steps_.push_back([content, start, fused = fused_](std::string& token, bool first) {
    if (fused && !first) return;
    for (int64_t i = 0; i < start && !content.empty() && absl::StartsWith(token, content); ++i)
      token.erase(0, content.size());
  });
  return part.status();
}

void TokenDecoder::AppendMetaspace(Part& part) {
  const std::string replacement = part.Text("replacement", "\u2581");
  part.Ignore({"str_rep", "split"});
  const bool add_prefix = part.Bool("add_prefix_space", true);
  const bool strip = part.Text("prepend_scheme", add_prefix ? "always" : "never") != "never";
  if (replacement.empty()) part.Fail("replacement", "is empty");
  steps_.push_back([replacement, strip](std::string& token, bool first) {
    if (strip && first && absl::StartsWith(token, replacement)) token.erase(0, replacement.size());
    token = absl::StrReplaceAll(token, {{replacement, " "}});
  });
}

absl::Status TokenDecoder::Append(const Json& json, const std::string& where) {
  Part part(json, where);
  const std::string type = part.Text("type");
  NPUBANK_RETURN_IF_ERROR(part.status());
  if (type == "Sequence") {
    for (const Json& each : part.List("decoders")) NPUBANK_RETURN_IF_ERROR(Append(each, where));
  } else if (type == "ByteLevel") {
    part.Ignore({"add_prefix_space", "trim_offsets", "use_regex"});
    steps_.push_back([](std::string& token, bool) { token = FromByteText(token); });
  } else if (type == "ByteFallback") {
    steps_.push_back([](std::string& token, bool) {
      const int byte = ByteOfToken(token);
      if (byte >= 0) token.assign(1, static_cast<char>(byte));
    });
  } else if (type == "Fuse") {
    fused_ = true;
  } else if (type == "Replace") {
    NPUBANK_RETURN_IF_ERROR(AppendReplace(part));
  } else if (type == "Strip") {
    NPUBANK_RETURN_IF_ERROR(AppendStrip(part));
  } else if (type == "Metaspace") {
    AppendMetaspace(part);
  } else {
    return UnknownType(where, type, kTypes);
  }
  return part.Done();
}

std::string TokenDecoder::BytesOf(absl::string_view token, bool first) const {
  std::string bytes(token);
  for (const Step& step : steps_) step(bytes, first);
  return bytes;
}

}  // namespace npubank
