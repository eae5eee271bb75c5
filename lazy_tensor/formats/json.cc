#include "npubank/lazy_tensor/formats/json.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/source.h"

namespace npubank {
namespace {

using Json = nlohmann::json;

// Builds the document from parser events and stops the parser at the first limit.
class BoundedBuilder final : public nlohmann::json_sax<Json> {
 public:
  Json TakeRoot() { return std::move(root_); }
  const std::string& fault() const { return fault_; }

  bool null() override { return Place(nullptr); }
  bool boolean(bool value) override { return Place(value); }
  bool number_integer(number_integer_t value) override { return Place(value); }
  bool number_unsigned(number_unsigned_t value) override { return Place(value); }
  bool number_float(number_float_t value, const string_t&) override { return Place(value); }
  bool string(string_t& value) override { return Place(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary value"); }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name)) return Fail(absl::StrCat("key ", Quote(name), " twice"));
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("not valid JSON at byte ", position));
  }

 private:
  bool Fail(std::string what) {
    fault_ = std::move(what);
    return false;
  }

  bool Place(Json value) {
    Json* placed = nullptr;
    return PlaceAt(std::move(value), placed);
  }

  bool PlaceAt(Json value, Json*& placed) {
    if (++values_ > kMaxJsonValues) {
      return Fail(absl::StrCat("more than ", kMaxJsonValues, " values"));
    }
    if (open_.empty()) {
      root_ = std::move(value);
      placed = &root_;
    } else if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      placed = &open_.back()->back();
    } else {
      placed = &(*open_.back())[key_];
      *placed = std::move(value);
    }
    return true;
  }

  bool Open(Json container) {
    if (open_.size() >= kMaxJsonDepth) {
      return Fail(absl::StrCat("nested deeper than ", kMaxJsonDepth, " levels"));
    }
    Json* placed = nullptr;
    if (!PlaceAt(std::move(container), placed)) return false;
    open_.push_back(placed);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  // The containers being filled, outermost first. Only the last one grows, so the pointers stay
  // valid.
  std::vector<Json*> open_;
  std::string key_;
  size_t values_ = 0;
  std::string fault_;
};

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text, const std::string& file) {
  BoundedBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", builder.fault()));
  }
  return builder.TakeRoot();
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, uint64_t max_bytes) {
  NPUBANK_ASSIGN_OR_RETURN(std::shared_ptr<Source> source,
                           Source::OpenFile(path, FileAccess::kRead));
  if (source->size() > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", source->size(), " bytes, more than the ", max_bytes, " such a file may have"));
  }
  std::string text(source->size(), '\0');
  NPUBANK_RETURN_IF_ERROR(
      source->Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  return text;
}

std::string Quote(absl::string_view text) {
  constexpr size_t kMaxShown = 100;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...'" : "'");
}

}  // namespace npubank
