#include "npubank/tools/tokenizers/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/formats/json.h"
#include "npubank/tools/tokenizers/text/utf8.h"

namespace npubank {
namespace {

constexpr absl::string_view kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr absl::string_view kOthers =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF})"
    R"(\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
constexpr absl::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Pc})";

bool Compiles(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF, &error, &place, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// Writes a pattern of Oniguruma's as one of PCRE2's.
class Rewriter {
 public:
  explicit Rewriter(absl::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Rewrite() {
    while (at_ < in_.size()) {
      if (in_[at_] == '\\') {
        NPUBANK_RETURN_IF_ERROR(Escape());
      } else if (in_class_) {
        NPUBANK_RETURN_IF_ERROR(InClass());
      } else if (in_[at_] == '[') {
        OpenClass();
      } else {
        out_ += in_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  absl::Status Refuse(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("pattern ", Quote(in_), ": ", what, " at byte ", at_, " is not supported"));
  }

  void OpenClass() {
    in_class_ = true;
    out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == '^') out_ += in_[at_++];
    // A bracket that comes first is one of the characters.
    if (at_ < in_.size() && in_[at_] == ']') absl::StrAppend(&out_, "\\", "]"), ++at_;
  }

  absl::Status InClass() {
    const char c = in_[at_];
    if (c == '[') return Refuse("a class within a class");
    if (absl::StartsWith(in_.substr(at_), "&&")) return Refuse("an intersection of classes");
    if (c == ']') in_class_ = false;
    out_ += c;
    ++at_;
    return absl::OkStatus();
  }

  // A set of characters by name, in a class or as one.
  void Set(absl::string_view members, bool negated) {
    if (in_class_) {
      out_.append(members.data(), members.size());
    } else {
      absl::StrAppend(&out_, negated ? "[^" : "[", members, "]");
    }
    at_ += 2;
  }

  absl::Status Escape() {
    if (at_ + 1 == in_.size()) return Refuse("a backslash at the end");
    const char c = in_[at_ + 1];
    switch (c) {
      case 's':
        return Set(kSpaces, false), absl::OkStatus();
      case 'S':
        return Set(kOthers, false), absl::OkStatus();
      case 'w':
        return Set(kWord, false), absl::OkStatus();
      case 'W':
        if (in_class_) return Refuse("\\W in a class");
        return Set(kWord, true), absl::OkStatus();
      case 'u':
        return CodeOfFour();
      case 'p':
      case 'P':
        return Property();
      default:
        break;
    }
    constexpr absl::string_view kSame = "dDrnftvxaezAZ";  // where both mean the same
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter && (kSame.find(c) == absl::string_view::npos ||
                   (in_class_ && (c == 'A' || c == 'z' || c == 'Z'))))
      return Refuse(absl::StrCat("\\", absl::string_view(&c, 1)));
    // PCRE2's \v is any vertical space, Oniguruma's is the tab.
    absl::StrAppend(&out_, c == 'v' ? "\\x{B}" : in_.substr(at_, 2));
    at_ += 2;
    return absl::OkStatus();
  }

  absl::Status CodeOfFour() {  // \u12AB
    const absl::string_view digits = in_.substr(at_ + 2, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
      return Refuse("\\u without four hexadecimal digits");
    absl::StrAppend(&out_, "\\x{", digits, "}");
    at_ += 6;
    return absl::OkStatus();
  }

  // A script is the characters that are of it, not those that are also used with it, as PCRE2 takes its name.
  absl::Status Property() {
    const size_t close = in_.find('}', at_);
    if (close == absl::string_view::npos || in_.substr(at_ + 2, 1) != "{")
      return Refuse("a property without braces");
    const absl::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    const std::string script = absl::StrCat(in_.substr(at_, 2), "{sc:", name, "}");
    if (name.size() > 2 && Compiles(script)) {
      out_ += script;
    } else {
      absl::StrAppend(&out_, in_.substr(at_, close + 1 - at_));
    }
    at_ = close + 1;
    return absl::OkStatus();
  }

  absl::string_view in_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

std::string Explain(int code) {
  std::array<unsigned char, 256> text = {};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Room for one match and the limits of a search.
struct Search {
  explicit Search(const pcre2_code* code)
      : match(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    if (context == nullptr) return;
    pcre2_set_match_limit(context, Regex::kMaxSteps);
    pcre2_set_heap_limit(context, Regex::kMaxHeapKib);
  }
  ~Search() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  pcre2_match_data* match;
  pcre2_match_context* context;
};

absl::Status Failed(int code, const std::string& pattern) {
  const std::string where = absl::StrCat("pattern ", Quote(pattern));
  if (code == PCRE2_ERROR_MATCHLIMIT)
    return absl::ResourceExhaustedError(absl::StrCat(
        where, ": the match limit of ", Regex::kMaxSteps, " steps does not suffice for this text"));
  if (code == PCRE2_ERROR_HEAPLIMIT || code == PCRE2_ERROR_NOMEMORY)
    return absl::ResourceExhaustedError(absl::StrCat(
        where, ": the heap limit of ", Regex::kMaxHeapKib, " KiB does not suffice for this text"));
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", Explain(code)));
}

}  // namespace

absl::StatusOr<Regex> Regex::Create(absl::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("pattern of ", pattern.size(), " bytes, more than ", kMaxPatternBytes));
  if (ValidUtf8(pattern) != pattern)
    return absl::InvalidArgumentError(absl::StrCat("pattern ", Quote(pattern), ": not UTF-8"));
  NPUBANK_ASSIGN_OR_RETURN(const std::string rewritten, Rewriter(pattern).Rewrite());
  int error = 0;
  PCRE2_SIZE place = 0;
  const std::shared_ptr<pcre2_code> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &place, nullptr),
      pcre2_code_free);
  if (code == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("pattern ", Quote(pattern), ": ", Explain(error), " near byte ", place));
  Regex regex;
  regex.pattern_ = std::string(pattern);
  regex.code_ = code;
  return regex;
}

absl::Status Regex::ForEachMatch(absl::string_view text,
                                 absl::FunctionRef<void(size_t, size_t)> each) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const Search search(code);
  if (search.match == nullptr || search.context == nullptr)
    return Failed(PCRE2_ERROR_NOMEMORY, pattern_);
  std::optional<size_t> last_end;
  for (size_t at = 0; at <= text.size();) {
    // The text is valid: checking it again at each search would be quadratic.
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK, search.match, search.context);
    if (found == PCRE2_ERROR_NOMATCH) return absl::OkStatus();
    if (found < 0) return Failed(found, pattern_);
    const PCRE2_SIZE* place = pcre2_get_ovector_pointer(search.match);
    const size_t begin = place[0], end = place[1];
    // \K within a lookaround could say otherwise.
    if (begin > end || begin < at) return Failed(PCRE2_ERROR_BADOFFSET, pattern_);
    if (begin != end || last_end != end) each(begin, end);
    last_end = end;
    at = end;
    if (begin == end) at += end < text.size() ? FirstChar(text.substr(end)).length : 1;
  }
  return absl::OkStatus();
}

}  // namespace npubank
