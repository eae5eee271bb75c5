#include "npubank/lazy_tensor/formats/safetensors.h"

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::vector<TensorEntry>> Read(const std::string& bytes) {
  return ReadSafetensors(*SourceOf(bytes, "x.safetensors"));
}

absl::StatusOr<std::vector<TensorEntry>> ReadHeader(const std::string& header, size_t data_bytes) {
  return Read(SafetensorsBytes(header, data_bytes));
}

// Every refusal is InvalidArgument, names the file and says why.
void ExpectRefused(const absl::StatusOr<std::vector<TensorEntry>>& result, const std::string& why) {
  ASSERT_FALSE(result.ok()) << "accepted, but should say: " << why;
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
  const std::string message(result.status().message());
  EXPECT_THAT(message, HasSubstr("x.safetensors"));
  EXPECT_THAT(message, HasSubstr(why));
  EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
  EXPECT_LT(message.size(), 500u);
}

std::string Tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                      ",\"data_offsets\":", offsets, "}");
}

std::string List(std::initializer_list<std::string> tensors) {
  return absl::StrCat("{", absl::StrJoin(tensors, ","), "}");
}

TEST(SafetensorsTest, EntriesComeInFileOrderWithOffsetsFromTheStartOfTheFile) {
  const std::string header =
      absl::StrCat("{\"__metadata__\":{\"format\":\"pt\"},", Tensor("b", "F32", "[2,3]", "[8,32]"),
                   ",", Tensor("a", "BF16", "[4]", "[0,8]"), "}   ");
  const auto entries = ReadHeader(header, 32);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_EQ((*entries)[0].type.ToString(), "BF16[4]");
  EXPECT_EQ((*entries)[0].offset, 8 + header.size());
  EXPECT_EQ((*entries)[1].name, "b");
  EXPECT_EQ((*entries)[1].type.ToString(), "F32[2,3]");
  EXPECT_EQ((*entries)[1].offset, 8 + header.size() + 8);
}

TEST(SafetensorsTest, EveryDtypeOfTheFormatIsKnown) {
  for (const char* dtype : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "I16", "U16", "F16", "BF16",
                            "I32", "U32", "F32", "F64", "I64", "U64"}) {
    const auto type = ElementTypeFromName(dtype);
    ASSERT_TRUE(type.has_value()) << dtype;
    const int bytes = BitWidth(*type) / 8;
    const auto entries =
        ReadHeader(List({Tensor("t", dtype, "[1]", absl::StrCat("[0,", bytes, "]"))}), bytes);
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_EQ((*entries)[0].type.element(), *type);
  }
}

TEST(SafetensorsTest, EmptyHeaderScalarsGapsAndZeroDimensionsAreFine) {
  EXPECT_TRUE(ReadHeader("{}", 0).ok());
  EXPECT_TRUE(ReadHeader(List({Tensor("scalar", "F32", "[]", "[0,4]")}), 4).ok());
  EXPECT_TRUE(ReadHeader(List({Tensor("late", "U8", "[1]", "[9,10]")}), 10).ok());
  // An empty tensor overlaps nothing, wherever it points.
  EXPECT_TRUE(
      ReadHeader(
          List({Tensor("none", "F32", "[0,7]", "[2,2]"), Tensor("some", "F32", "[1]", "[0,4]")}), 4)
          .ok());
}

TEST(SafetensorsTest, TruncatedFilesAreRefused) {
  const std::string whole = SafetensorsBytes(List({Tensor("t", "F32", "[2]", "[0,8]")}), 8);
  ASSERT_TRUE(Read(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto result = Read(whole.substr(0, size));
    ASSERT_FALSE(result.ok()) << "cut to " << size << " of " << whole.size() << " bytes";
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  }
  ExpectRefused(Read(whole.substr(0, 7)), "truncated");
  ExpectRefused(Read(whole.substr(0, whole.size() - 1)), "'t'");
}

TEST(SafetensorsTest, HeaderLengthIsBoundedByTheFileAndTheLimit) {
  ExpectRefused(Read(LittleEndian64(3) + "{}"), "beyond the end");
  ExpectRefused(Read(LittleEndian64(100'000'001) + "{}"), "limit");
  ExpectRefused(Read(LittleEndian64(~uint64_t{0}) + "{}"), "limit");
  ExpectRefused(Read(LittleEndian64(uint64_t{1} << 63) + "{}"), "limit");
}

TEST(SafetensorsTest, OffsetsOutsideOfTheDataAreRefused) {
  ExpectRefused(ReadHeader(List({Tensor("t", "U8", "[4]", "[1,5]")}), 4), "tensor 't'");
  ExpectRefused(ReadHeader(List({Tensor("t", "U8", "[4]", "[4,0]")}), 8), "not within");
  ExpectRefused(ReadHeader(List({Tensor("t", "U8", "[0]", "[5,5]")}), 4), "not within");
  ExpectRefused(
      ReadHeader(List({Tensor("t", "U8", "[1]", "[18446744073709551615,18446744073709551615]")}),
                 4),
      "not within");
}

TEST(SafetensorsTest, OverlappingTensorsAreRefused) {
  ExpectRefused(
      ReadHeader(List({Tensor("a", "U8", "[4]", "[0,4]"), Tensor("b", "U8", "[4]", "[3,7]")}), 7),
      "'a' and 'b' overlap");
  // The one between them is empty; the outer two still overlap.
  ExpectRefused(
      ReadHeader(List({Tensor("a", "U8", "[4]", "[0,4]"), Tensor("e", "U8", "[0]", "[1,1]"),
                       Tensor("b", "U8", "[2]", "[2,4]")}),
                 4),
      "overlap");
}

TEST(SafetensorsTest, ShapeAndBytesMustAgree) {
  ExpectRefused(ReadHeader(List({Tensor("t", "F32", "[2]", "[0,4]")}), 8), "tensor 't'");
  ExpectRefused(ReadHeader(List({Tensor("t", "F16", "[2]", "[0,8]")}), 8), "hold 8");
}

TEST(SafetensorsTest, UnknownDtypesAreNamed) {
  ExpectRefused(ReadHeader(List({Tensor("t", "F12", "[1]", "[0,4]")}), 4), "unknown dtype 'F12'");
}

TEST(SafetensorsTest, DuplicatesAreRefused) {
  const std::string twice = Tensor("t", "U8", "[1]", "[0,1]");
  ExpectRefused(ReadHeader("{" + twice + "," + Tensor("t", "U8", "[1]", "[1,2]") + "}", 2),
                "'t' appears twice");
  ExpectRefused(ReadHeader("{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 1), "'dtype' twice");
  ExpectRefused(ReadHeader("{\"__metadata__\":{},\"__metadata__\":{}}", 0), "twice");
}

TEST(SafetensorsTest, HugeNumbersAreRefusedWithoutOverflow) {
  for (const char* shape : {"[9223372036854775808]", "[18446744073709551616]", "[1e30]", "[-1]",
                            "[4611686018427387904,4]", "[4294967296,4294967296]", "[1.5]",
                            "[9223372036854775807,9223372036854775807,0]"}) {
    const auto result = ReadHeader(List({Tensor("t", "F32", shape, "[0,4]")}), 4);
    ExpectRefused(result, "tensor 't'");
  }
  ExpectRefused(ReadHeader(List({Tensor("t", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]")}), 1),
                "dimensions");
  ExpectRefused(ReadHeader(List({Tensor("t", "U8", "[1]", "[0,1,1]")}), 1), "[begin, end]");
  ExpectRefused(ReadHeader(List({Tensor("t", "U8", "[1]", "[0]")}), 1), "[begin, end]");
}

TEST(SafetensorsTest, DeepNestingStopsTheParser) {
  for (const int depth : {4, 10'000, 1'000'000}) {
    std::string arrays(depth, '[');
    std::string objects = "{\"__metadata__\":";
    for (int i = 0; i < depth; ++i) objects += "{\"a\":";
    ExpectRefused(ReadHeader(absl::StrCat("{\"t\":{\"shape\":", arrays), 0),
                  "where the header must not");
    ExpectRefused(ReadHeader(objects, 0), "where the header must not");
    ExpectRefused(ReadHeader(arrays, 0), "where the header must not");
  }
}

TEST(SafetensorsTest, WhatIsNotATensorListIsRefused) {
  ExpectRefused(ReadHeader("", 0), "not valid JSON");
  ExpectRefused(ReadHeader("{\"a\":", 0), "not valid JSON");
  ExpectRefused(ReadHeader("{}x", 0), "not valid JSON");
  ExpectRefused(ReadHeader("{\"\xFF\":{}}", 0), "not valid JSON");
  ExpectRefused(ReadHeader("[]", 0), "an array");
  ExpectRefused(ReadHeader("5", 0), "a number");
  ExpectRefused(ReadHeader("null", 0), "null");
  ExpectRefused(ReadHeader("{\"t\":5}", 0), "tensor 't': a number");
  ExpectRefused(ReadHeader("{\"t\":{}}", 0), "needs dtype");
  ExpectRefused(ReadHeader("{\"t\":{\"dtype\":5}}", 0), "a number");
  ExpectRefused(ReadHeader("{\"t\":{\"dtype\":[]}}", 0), "an array");
  ExpectRefused(ReadHeader("{\"t\":{\"shape\":{}}}", 0), "an object");
  ExpectRefused(ReadHeader("{\"t\":{\"shape\":\"x\"}}", 0), "a string");
  ExpectRefused(ReadHeader("{\"t\":{\"size\":5}}", 0), "unknown field 'size'");
  ExpectRefused(ReadHeader("{\"__metadata__\":{\"a\":5}}", 0), "a number");
}

TEST(SafetensorsTest, LongAndUnprintableNamesStayOutOfMessages) {
  const std::string name(3000, '\x01');
  std::string escaped;
  for (size_t i = 0; i < name.size(); ++i) escaped += "\\u0001";
  ExpectRefused(ReadHeader(absl::StrCat("{\"", escaped, "\":5}"), 0), "...");
  ExpectRefused(ReadHeader(absl::StrCat("{\"", std::string(5000, 'n'), "\":5}"), 0), "5000 bytes");
}

TEST(SafetensorsTest, ManyTensorsTakeLittleTime) {
  std::string header = "{";
  constexpr int kCount = 50'000;
  for (int i = kCount; i-- > 0;) {  // the opposite of the sorted order
    absl::StrAppend(
        &header, Tensor(absl::StrCat("t", i), "U8", "[1]", absl::StrCat("[", i, ",", i + 1, "]")),
        i == 0 ? "}" : ",");
  }
  const auto entries = ReadHeader(header, kCount);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->size(), static_cast<size_t>(kCount));
  EXPECT_EQ(entries->front().name, "t0");
}

}  // namespace
}  // namespace npubank
