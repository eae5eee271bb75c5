#include "npubank/tools/tokenizers/sentencepiece/sentencepiece_file.h"

#include <bit>
#include <cmath>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tools/tokenizers/text/utf8.h"
#include "npubank/tools/tokenizers/tokenizer.h"

namespace npubank {
namespace {

// Field numbers of sentencepiece_model.proto.
enum ModelField { kPieces = 1, kNormalizer = 3, kDenormalizer = 5 };
enum PieceField { kText = 1, kScore = 2 };
enum RulesField { kTable = 2, kAddsSpace = 3, kRemovesSpaces = 4 };

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

uint32_t LittleEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

struct Field {
  uint64_t number = 0;
  enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 } wire = kVarint;
  uint64_t value = 0;       // of a varint
  absl::string_view bytes;  // of all others
};

absl::StatusOr<uint64_t> TakeVarint(absl::string_view& message) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(message[0]);
    message.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return Invalid("is not a whole protocol buffer");
}

absl::StatusOr<Field> TakeField(absl::string_view& message) {
  Field field;
  NPUBANK_ASSIGN_OR_RETURN(const uint64_t tag, TakeVarint(message));
  field.number = tag >> 3;
  uint64_t length = 0;
  switch (tag & 7) {
    case Field::kVarint: {
      NPUBANK_ASSIGN_OR_RETURN(field.value, TakeVarint(message));
      return field;
    }
    case Field::kFixed64:
      length = 8;
      break;
    case Field::kFixed32:
      length = 4;
      break;
    case Field::kBytes: {
      NPUBANK_ASSIGN_OR_RETURN(length, TakeVarint(message));
      break;
    }
    default:
      return Invalid("is not a protocol buffer");
  }
  field.wire = static_cast<Field::Wire>(tag & 7);
  if (length > message.size()) return Invalid("is not a whole protocol buffer");
  field.bytes = message.substr(0, length);
  message.remove_prefix(length);
  return field;
}

absl::Status ForEachField(absl::string_view message,
                          const std::function<absl::Status(const Field&)>& each) {
  while (!message.empty()) {
    NPUBANK_ASSIGN_OR_RETURN(const Field field, TakeField(message));
    NPUBANK_RETURN_IF_ERROR(each(field));
  }
  return absl::OkStatus();
}

absl::Status CheckPiece(absl::string_view message) {
  std::string text;
  NPUBANK_RETURN_IF_ERROR(ForEachField(message, [&](const Field& field) {
    if (field.number == kText && field.wire == Field::kBytes) text = std::string(field.bytes);
    if (field.number == kScore && field.wire == Field::kFixed32 &&
        !std::isfinite(std::bit_cast<float>(LittleEndian(field.bytes))))
      return Invalid("has a score that is not finite");
    return absl::OkStatus();
  }));
  if (text.empty() || text.find('\0') != std::string::npos || ValidUtf8(text) != text)
    return Invalid("has no text in UTF-8");
  return absl::OkStatus();
}

// A unit of the trie in the table, as the library walks it: from place p over a byte b to p ^ offset ^ b.
absl::Status CheckTrie(absl::string_view units, absl::string_view texts) {
  constexpr uint32_t kIsValue = 1u << 31, kHasValue = 1u << 8, kWide = 1u << 9;
  const size_t count = units.size() / 4;
  if (units.size() % (256 * 4) != 0 || count == 0) return Invalid("has a table of no whole blocks");
  for (size_t i = 0; i < count; ++i) {
    const uint32_t unit = LittleEndian(units.substr(4 * i));
    if ((unit & kIsValue) != 0) continue;  // what leads nowhere; seen from the unit before it
    const size_t next = i ^ (size_t{unit >> 10} << ((unit & kWide) != 0 ? 8 : 0));
    // Whatever the byte, it changes the lowest 8 bits of a place only, and blocks are whole.
    if (next >= count) return Invalid("has a table that leads out of itself");
    if ((unit & kHasValue) == 0) continue;
    const uint32_t value = LittleEndian(units.substr(4 * next)) & ~kIsValue;
    if (value >= texts.size()) return Invalid("has a table that leads out of its texts");
  }
  return absl::OkStatus();
}

absl::Status CheckTable(absl::string_view table) {
  if (table.empty()) return absl::OkStatus();
  if (table.size() < 4 || LittleEndian(table) > table.size() - 4)
    return Invalid("has a table of text rules that is cut off");
  const absl::string_view units = table.substr(4, LittleEndian(table));
  const absl::string_view texts = table.substr(4 + units.size());
  if (texts.empty() || texts.back() != '\0') return Invalid("has text rules without an end");
  return CheckTrie(units, texts);
}

absl::Status CheckRules(absl::string_view message, SentencePieceFile& file) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == kTable && field.wire == Field::kBytes) return CheckTable(field.bytes);
    if (field.wire != Field::kVarint) return absl::OkStatus();
    if (field.number == kAddsSpace) file.adds_space = field.value != 0;
    if (field.number == kRemovesSpaces) file.removes_spaces = field.value != 0;
    return absl::OkStatus();
  });
}

absl::StatusOr<SentencePieceFile> Check(absl::string_view bytes) {
  SentencePieceFile file;
  NPUBANK_RETURN_IF_ERROR(ForEachField(bytes, [&](const Field& field) {
    if (field.wire != Field::kBytes) return absl::OkStatus();
    if (field.number == kNormalizer) return CheckRules(field.bytes, file);
    SentencePieceFile unused;
    if (field.number == kDenormalizer) return CheckRules(field.bytes, unused);
    if (field.number != kPieces) return absl::OkStatus();
    if (++file.pieces > Tokenizer::kMaxIds)
      return Invalid(absl::StrCat("has more than ", Tokenizer::kMaxIds, " pieces"));
    const absl::Status piece = CheckPiece(field.bytes);
    return piece.ok() ? piece : Annotate(piece, absl::StrCat("piece ", file.pieces - 1));
  }));
  if (file.pieces == 0) return Invalid("has no pieces");
  return file;
}

}  // namespace

absl::StatusOr<SentencePieceFile> CheckSentencePiece(absl::string_view bytes,
                                                     const std::string& file) {
  absl::StatusOr<SentencePieceFile> checked = Check(bytes);
  if (!checked.ok()) return Annotate(checked.status(), file);
  return checked;
}

}  // namespace npubank
