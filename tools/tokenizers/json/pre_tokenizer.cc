#include "npubank/tools/tokenizers/json/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/tokenizers/text/byte_text.h"
#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {
namespace {

using Json = nlohmann::json;
using Matches = PreTokenizer::Matches;

constexpr char kTypes[] =
    "ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace, WhitespaceSplit and Sequence";
// GPT-2's words.
constexpr char kWords[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Stretch {
  size_t begin;
  size_t end;
  bool match;
};

absl::StatusOr<std::vector<Stretch>> Find(const Pattern& pattern, bool inverted,
                                          absl::string_view text) {
  std::vector<Stretch> stretches;
  size_t done = 0;
  NPUBANK_RETURN_IF_ERROR(pattern.ForEachMatch(text, [&](size_t begin, size_t end) {
    if (done != begin) stretches.push_back({done, begin, inverted});
    stretches.push_back({begin, end, !inverted});
    done = end;
  }));
  if (done != text.size()) stretches.push_back({done, text.size(), inverted});
  return stretches;
}

// The last of `kept` takes in what comes behind it.
void Extend(const Stretch& next, bool together, std::vector<Stretch>& kept) {
  if (together && !kept.empty()) {
    kept.back().end = next.end;
  } else {
    kept.push_back(next);
  }
}

std::vector<Stretch> WithNext(const std::vector<Stretch>& all) {
  std::vector<Stretch> kept;  // from back to front
  bool after_match = false;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (at->match && !after_match && !kept.empty()) {
      kept.back().begin = at->begin;
    } else {
      kept.push_back(*at);
    }
    after_match = at->match;
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

std::vector<Stretch> Arrange(std::vector<Stretch> all, Matches matches) {
  if (matches == Matches::kIsolated) return all;
  if (matches == Matches::kWithNext) return WithNext(all);
  std::vector<Stretch> kept;
  bool after_match = false;
  for (const Stretch& each : all) {
    if (matches == Matches::kRemoved) {
      if (!each.match) kept.push_back(each);
    } else if (matches == Matches::kWithPrevious) {
      Extend(each, each.match && !after_match, kept);
    } else {
      Extend(each, each.match == after_match, kept);
    }
    after_match = each.match;
  }
  return kept;
}

std::optional<Matches> MatchesFromName(const std::string& name) {
  for (const auto& [known, matches] : {std::pair{"Isolated", Matches::kIsolated},
                                       {"Removed", Matches::kRemoved},
                                       {"MergedWithPrevious", Matches::kWithPrevious},
                                       {"MergedWithNext", Matches::kWithNext},
                                       {"Contiguous", Matches::kContiguous}})
    if (name == known) return matches;
  return std::nullopt;
}

absl::StatusOr<Matches> Behavior(Part& part, const char* absent) {
  const std::optional<Matches> matches = MatchesFromName(part.Text("behavior", absent));
  if (!matches)
    part.Fail("behavior",
              "must be Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
  NPUBANK_RETURN_IF_ERROR(part.status());
  return *matches;
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const Json& json, const std::string& where) {
  PreTokenizer result;
  if (!json.is_null()) NPUBANK_RETURN_IF_ERROR(result.Append(json, where));
  return result;
}

void PreTokenizer::AddSplit(Pattern pattern, Matches matches, bool inverted) {
  steps_.push_back([=](std::vector<TextPiece>& pieces) -> absl::Status {
    std::vector<TextPiece> result;
    for (const TextPiece& piece : pieces) {
      NPUBANK_ASSIGN_OR_RETURN(std::vector<Stretch> found, Find(pattern, inverted, piece.text));
      for (const Stretch& each : Arrange(std::move(found), matches))
        if (each.begin != each.end)
          result.push_back({piece.text.substr(each.begin, each.end - each.begin),
                            piece.first && each.begin == 0});
    }
    pieces = std::move(result);
    return absl::OkStatus();
  });
}

absl::Status PreTokenizer::AddSplit(absl::string_view regex, Matches matches, bool inverted) {
  NPUBANK_ASSIGN_OR_RETURN(Regex compiled, Regex::Create(regex));
  AddSplit(Pattern(std::move(compiled)), matches, inverted);
  return absl::OkStatus();
}

void PreTokenizer::AddByteText() {
  steps_.push_back([](std::vector<TextPiece>& pieces) {
    for (TextPiece& piece : pieces) piece.text = ToByteText(piece.text);
    return absl::OkStatus();
  });
}

void PreTokenizer::AddPrefix(const std::string& prefix, bool first_only) {
  steps_.push_back([=](std::vector<TextPiece>& pieces) {
    for (TextPiece& piece : pieces)
      if ((piece.first || !first_only) && !absl::StartsWith(piece.text, prefix))
        piece.text.insert(0, prefix);
    return absl::OkStatus();
  });
}

absl::Status PreTokenizer::AppendByteLevel(Part& part) {
  part.Ignore({"trim_offsets"});
  if (part.Bool("add_prefix_space", true)) AddPrefix(" ", false);
  if (part.Bool("use_regex", true)) NPUBANK_RETURN_IF_ERROR(AddSplit(kWords, Matches::kIsolated));
  AddByteText();
  return absl::OkStatus();
}

absl::Status PreTokenizer::AppendMetaspace(Part& part) {
  const std::string replacement = part.Text("replacement", "\u2581");
  part.Ignore({"str_rep"});  // the same once more, as older files have it
  const bool add_prefix = part.Bool("add_prefix_space", true);
  const std::string scheme = part.Text("prepend_scheme", add_prefix ? "always" : "never");
  const bool split = part.Bool("split", true);
  if (scheme != "always" && scheme != "first" && scheme != "never")
    part.Fail("prepend_scheme", "must be always, first or never");
  if (replacement.empty() || FirstChar(replacement).length != replacement.size())
    part.Fail("replacement", "must be one character");
  NPUBANK_RETURN_IF_ERROR(part.status());
  steps_.push_back([=](std::vector<TextPiece>& pieces) {
    for (TextPiece& piece : pieces)
      piece.text = absl::StrReplaceAll(piece.text, {{" ", replacement}});
    return absl::OkStatus();
  });
  if (scheme != "never") AddPrefix(replacement, scheme == "first");
  if (split) AddSplit(Pattern(replacement), Matches::kWithNext);
  return absl::OkStatus();
}

absl::Status PreTokenizer::AppendSplit(Part& part) {
  NPUBANK_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Create(part, "pattern"));
  NPUBANK_ASSIGN_OR_RETURN(const Matches matches, Behavior(part, "Isolated"));
  AddSplit(std::move(pattern), matches, part.Bool("invert", false));
  return absl::OkStatus();
}

absl::Status PreTokenizer::Append(const Json& json, const std::string& where) {
  Part part(json, where);
  const std::string type = part.Text("type");
  NPUBANK_RETURN_IF_ERROR(part.status());
  if (type == "Sequence") {
    for (const Json& each : part.List("pretokenizers"))
      NPUBANK_RETURN_IF_ERROR(Append(each, where));
  } else if (type == "ByteLevel") {
    NPUBANK_RETURN_IF_ERROR(AppendByteLevel(part));
  } else if (type == "Metaspace") {
    NPUBANK_RETURN_IF_ERROR(AppendMetaspace(part));
  } else if (type == "Split") {
    NPUBANK_RETURN_IF_ERROR(AppendSplit(part));
  } else if (type == "Digits") {
    const bool each = part.Bool("individual_digits", false);
    NPUBANK_RETURN_IF_ERROR(AddSplit(each ? "\\p{N}" : "\\p{N}+", Matches::kIsolated));
  } else if (type == "Punctuation") {
    NPUBANK_ASSIGN_OR_RETURN(const Matches matches, Behavior(part, "Isolated"));
    NPUBANK_RETURN_IF_ERROR(AddSplit("[$+<=>^`|~\\p{P}]", matches));
  } else if (type == "Whitespace") {
    NPUBANK_RETURN_IF_ERROR(AddSplit("\\w+|[^\\w\\s]+", Matches::kRemoved, true));
  } else if (type == "WhitespaceSplit") {
    NPUBANK_RETURN_IF_ERROR(AddSplit("\\s", Matches::kRemoved));
  } else {
    return UnknownType(where, type, kTypes);
  }
  return part.Done();
}

absl::Status PreTokenizer::Apply(std::vector<TextPiece>& pieces) const {
  for (const Step& step : steps_) {
    NPUBANK_RETURN_IF_ERROR(step(pieces));
    size_t bytes = 0;
    for (const TextPiece& piece : pieces) bytes += piece.text.size();
    // A step doubles a text, or thereabouts: so can each that a hostile file has.
    if (bytes > kMaxBytes)
      return absl::ResourceExhaustedError(absl::StrCat(
          "cutting the text into words would make more than ", kMaxBytes, " bytes of it"));
  }
  return absl::OkStatus();
}

}  // namespace npubank
