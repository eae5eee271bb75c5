#include "npubank/lazy_tensor/formats/model/network_names.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/lazy_tensor/formats/model/model_config.h"
#include "npubank/lazy_tensor/formats/model/networks.h"

namespace npubank {
namespace {

using Json = nlohmann::json;
using Kind = KnownName::Kind;

size_t NumberLength(absl::string_view text) {
  size_t length = 0;
  while (length < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[length])))
    ++length;
  return length > 1 && text[0] == '0' ? 0 : length;
}

// Whether the pattern matches all of the text; the first '#' of it into `number`. Patterns are ours: few and
// short, with hardly a '*'.
bool Matches(absl::string_view pattern, absl::string_view text, absl::string_view architecture,
             absl::string_view* number) {
  while (!pattern.empty() && pattern[0] != '*') {
    size_t length = 1;
    if (pattern[0] == '#') {
      length = NumberLength(text);
      if (length == 0) return false;
      if (number->empty()) *number = text.substr(0, length);
    } else if (pattern[0] == '@') {
      if (!absl::StartsWith(text, architecture)) return false;
      length = architecture.size();
    } else if (text.empty() || text[0] != pattern[0]) {
      return false;
    }
    pattern.remove_prefix(1);
    text.remove_prefix(length);
  }
  if (pattern.empty()) return text.empty();
  for (size_t skipped = 0; skipped <= text.size(); ++skipped) {
    absl::string_view inner = *number;
    if (!Matches(pattern.substr(1), text.substr(skipped), architecture, &inner)) continue;
    *number = inner;
    return true;
  }
  return false;
}

// Null when no list has the name.
const KnownName* Find(const NameLists& lists, absl::string_view name, absl::string_view* number,
                      absl::string_view architecture = "") {
  for (const absl::Span<const KnownName> list : lists) {
    for (const KnownName& known : list) {
      *number = {};
      if (Matches(known.pattern, name, architecture, number)) return &known;
    }
  }
  return nullptr;
}

// Null for a name of no tensor that is used.
const TensorName* FindUsed(const NetworkNames& network, Naming naming, absl::string_view name,
                           absl::string_view* number) {
  for (const absl::Span<const TensorName> list : network.used) {
    for (const TensorName& tensor : list) {
      *number = {};
      const char* const pattern = naming == Naming::kHub ? tensor.hub : tensor.gguf;
      if (Matches(pattern, name, /*architecture=*/"", number)) return &tensor;
    }
  }
  return nullptr;
}

// Whether a value, or each value of a list, is one of those that say nothing.
bool SaysNothing(const Json& value, const Json& harmless) {
  const auto is_harmless = [&](const Json& one) {
    return std::find(harmless.begin(), harmless.end(), one) != harmless.end();
  };
  if (!value.is_array() || value.empty()) return is_harmless(value);
  return std::all_of(value.begin(), value.end(), is_harmless);
}

// As it may stand in a message.
std::string Shown(const Json& value) {
  if (value.is_string()) return Quote(value.get_ref<const std::string&>());
  if (value.is_structured())
    return Quote(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  return value.dump();
}

absl::StatusOr<bool> IsZero(const StoredTensor& tensor, const SourceIndex& index) {
  constexpr uint64_t kMaxBytes = ModelConfig::kMaxDim * 8;  // of what is added to one row
  if (tensor.type.bytes() > kMaxBytes) return false;
  NPUBANK_ASSIGN_OR_RETURN(const std::shared_ptr<Source> source, index.Open(tensor.file));
  std::vector<std::byte> bytes(tensor.type.bytes());
  NPUBANK_RETURN_IF_ERROR(source->Read(tensor.offset, absl::MakeSpan(bytes)));
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

const std::vector<const NetworkNames*>& NetworkNames::All() {
  static const std::vector<const NetworkNames*> all = {&LlamaNames(), &MistralNames(),
                                                       &Qwen2Names(), &Qwen3Names(), &Phi3Names()};
  return all;
}

const NetworkNames* NetworkNames::Find(absl::string_view model_type) {
  for (const NetworkNames* names : All()) {
    if (model_type == names->network) return names;
  }
  return nullptr;
}

const NetworkNames* NetworkNames::FindArchitecture(absl::string_view architecture) {
  for (const NetworkNames* names : All()) {
    if (!architecture.empty() && architecture == names->architecture) return names;
  }
  return nullptr;
}

absl::Status CheckKeys(const NameLists& lists, const Json& object, const std::string& where,
                       const std::string& network, absl::string_view architecture) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    absl::string_view number;
    const KnownName* known = Find(lists, key, &number, architecture);
    if (known == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, Quote(key), " is not known to be part of ", network,
                       ", and leaving out what changes it would give wrong results; remove it from "
                       "the file if it changes nothing"));
    }
    if (known->kind != Kind::kRefused) continue;
    if (SaysNothing(value, Json::parse(known->unless))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, Quote(key), " is ", Shown(value), "; ", known->why));
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(const NetworkNames& network, Naming naming, absl::string_view name,
                         const StoredTensor& tensor, const SourceIndex& index, int64_t layers) {
  const std::string where =
      absl::StrCat(index.file(tensor.file).name, ": tensor ", Quote(tensor.name));
  absl::string_view number;
  const bool used = FindUsed(network, naming, name, &number) != nullptr;
  const NameLists& others = naming == Naming::kHub ? network.tensors : network.gguf_tensors;
  const KnownName* known = used ? nullptr : Find(others, name, &number);
  if (!used && known == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(where,
                     " is not known to be part of this network, and leaving it out might give "
                     "wrong results; remove it "
                     "from the file if it is not needed"));
  }
  int64_t layer = 0;
  if (!number.empty() && (!absl::SimpleAtoi(number, &layer) || layer >= layers)) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " is of layer ", number, ", but the config has ", layers,
                     " layers; correct the config or remove the tensor"));
  }
  if (used || known->kind == Kind::kUsed || known->kind == Kind::kHarmless) return absl::OkStatus();
  if (known->kind == Kind::kAdds) {
    NPUBANK_ASSIGN_OR_RETURN(const bool zero, IsZero(tensor, index));
    if (zero) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", known->why));
}

std::string HubName(const NetworkNames& network, absl::string_view gguf_name) {
  absl::string_view number;
  const TensorName* tensor = FindUsed(network, Naming::kGguf, gguf_name, &number);
  if (tensor == nullptr) return std::string(gguf_name);
  return absl::StrReplaceAll(tensor->hub, {{"#", number}});
}

}  // namespace npubank
