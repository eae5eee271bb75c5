// TokenDecoder: the bytes that one token stands for, as a tokenizer.json says.
//
//   NPUBANK_ASSIGN_OR_RETURN(const TokenDecoder decoder, TokenDecoder::Create(json, "tokenizer.json: decoder"));
//   decoder.BytesOf("▁Once", /*first=*/true);   // "Once"
//
// Types: ByteLevel, Metaspace, ByteFallback, Fuse, Replace (of a string), Strip (of one character at the start),
// and Sequence of them. No decoder at all joins tokens with spaces. So a text can be told token by token.
// Other than in the original, a text that begins with several spaces keeps all but the one that was added.
// Threads: immutable. Errors: Unimplemented naming another type or key, InvalidArgument for what is wrong.
#ifndef NPUBANK_TOOLS_TOKENIZERS_JSON_TOKEN_DECODER_H_
#define NPUBANK_TOOLS_TOKENIZERS_JSON_TOKEN_DECODER_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace npubank {

class TokenDecoder {
 public:
  static absl::StatusOr<TokenDecoder> Create(const nlohmann::json& json, const std::string& where);
  static TokenDecoder OfByteText();

  // `first`: no token was before it.
  std::string BytesOf(absl::string_view token, bool first) const;

 private:
  using Step = std::function<void(std::string& token, bool first)>;
  absl::Status Append(const nlohmann::json& json, const std::string& where);
  absl::Status AppendReplace(class Part& part);
  absl::Status AppendStrip(class Part& part);
  void AppendMetaspace(class Part& part);

  std::vector<Step> steps_;
  bool fused_ = false;  // what follows is of the text, not of each token
};

}  // namespace npubank

#endif  // NPUBANK_TOOLS_TOKENIZERS_JSON_TOKEN_DECODER_H_
