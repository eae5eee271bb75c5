#include "npubank/tools/tokenizers/json/post_processor.h"

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/tools/tokenizers/json/part.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

// The ids of one special token, by its name in the template.
absl::Status AppendIds(const std::string& name, Part& specials, std::vector<int32_t>& ids) {
  const Json* entry = specials.Get(name.c_str());
  if (entry == nullptr) {
    specials.Fail(name.c_str(), "is missing");
    return specials.status();
  }
  Part special(*entry, absl::StrCat(specials.where(), ": ", Quote(name)));
  special.Ignore({"id", "tokens"});
  for (const Json& id : special.List("ids")) {
    const bool number = id.is_number_unsigned() && id.get<uint64_t>() < Tokenizer::kMaxIds;
    if (!number) special.Fail("ids", "must be ids of tokens");
    if (number) ids.push_back(id.get<int32_t>());
  }
  return special.Done();
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::Create(const Json& json, const std::string& where) {
  PostProcessor result;
  if (!json.is_null()) NPUBANK_RETURN_IF_ERROR(result.Append(json, where));
  return result;
}

absl::Status PostProcessor::AppendTemplate(Part& part) {
  part.Ignore({"pair"});
  const Json* listed = part.Get("special_tokens");
  const Json none = Json::object();
  Part specials(listed == nullptr ? none : *listed,
                absl::StrCat(part.where(), ": 'special_tokens'"));
  NPUBANK_RETURN_IF_ERROR(specials.status());
  bool text_seen = false;
  std::vector<int32_t> first;  // before the text
  for (const Json& each : part.List("single")) {
    Part item(each, absl::StrCat(part.where(), ": 'single'"));
    const bool text = item.Get("Sequence") != nullptr;
    const Json* named = item.Get(text ? "Sequence" : "SpecialToken");
    NPUBANK_RETURN_IF_ERROR(item.Done());
    Part name(named == nullptr ? none : *named, item.where());
    name.Ignore({"type_id"});
    const std::string id = name.Text("id");
    NPUBANK_RETURN_IF_ERROR(name.Done());
    if (text && (text_seen || id != "A")) {
      part.Fail("single", "must have the sequence A once");
    } else if (!text) {
      NPUBANK_RETURN_IF_ERROR(AppendIds(id, specials, text_seen ? behind : first));
    }
    text_seen = text_seen || text;
  }
  if (!text_seen) part.Fail("single", "must have the sequence A once");
  before.insert(before.begin(), first.begin(), first.end());
  return part.status();
}

absl::Status PostProcessor::Append(const Json& json, const std::string& where) {
  Part part(json, where);
  const std::string type = part.Text("type");
  NPUBANK_RETURN_IF_ERROR(part.status());
  if (type == "Sequence") {
    for (const Json& each : part.List("processors")) NPUBANK_RETURN_IF_ERROR(Append(each, where));
  } else if (type == "TemplateProcessing") {
    NPUBANK_RETURN_IF_ERROR(AppendTemplate(part));
  } else if (type == "ByteLevel") {
    part.Ignore({"add_prefix_space", "trim_offsets", "use_regex"});  // of offsets, not of ids
  } else {
    return UnknownType(where, type, "TemplateProcessing, ByteLevel and Sequence");
  }
  return part.Done();
}

}  // namespace npubank
