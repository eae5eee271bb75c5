#include "npubank/lazy_tensor/formats/gguf.h"

#include <sys/resource.h>

#include <bit>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "npubank/tests/unit/formats/gguf_builder.h"
#include "npubank/tests/unit/formats/test_files.h"

namespace npubank {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kF16 = 1;
constexpr uint32_t kQ4_0 = 2;
constexpr uint32_t kQ6_K = 14;

absl::StatusOr<Gguf> Read(const std::string& bytes) { return ReadGguf(*SourceOf(bytes, "x.gguf")); }

void ExpectRefused(const absl::StatusOr<Gguf>& result, const std::string& why) {
  ASSERT_FALSE(result.ok()) << "accepted, but should say: " << why;
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
  const std::string message(result.status().message());
  EXPECT_THAT(message, HasSubstr("x.gguf"));
  EXPECT_THAT(message, HasSubstr(why));
  EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
  EXPECT_LT(message.size(), 500u);
}

template <typename T>
T ValueOf(const Gguf& file, const std::string& key) {
  const GgufValue* value = file.Find(key);
  EXPECT_NE(value, nullptr) << key;
  const T* typed = value == nullptr ? nullptr : std::get_if<T>(&value->value);
  EXPECT_NE(typed, nullptr) << key << " has another type";
  return typed == nullptr ? T{} : *typed;
}

TEST(GgufTest, EveryMetadataTypeIsRead) {
  using B = GgufBuilder;
  B builder;
  builder.Raw("u8", 0, B::Little(200, 1)).Raw("i8", 1, B::Little(0xFF, 1));
  builder.Raw("u16", 2, B::Little(60000, 2)).Raw("i16", 3, B::Little(0xFFFE, 2));
  builder.Raw("u32", 4, B::Little(4000000000, 4)).Raw("i32", 5, B::Little(0xFFFFFFFD, 4));
  builder.Raw("f32", 6, B::Float(0.5f)).Raw("yes", 7, "\x01").Raw("no", 7, std::string(1, '\0'));
  builder.Text("text", "a text").Raw("u64", 10, B::Little(~uint64_t{0}, 8));
  builder.Raw("i64", 11, B::Little(~uint64_t{3}, 8));
  builder.Raw("f64", 12, B::Little(std::bit_cast<uint64_t>(0.1), 8));
  builder.Array("list", 8, {B::String("x"), B::String("")});
  builder.Array("nested", 9, {B::Little(4, 4) + B::Little(1, 8) + B::Little(7, 4)});
  for (const uint32_t version : {2u, 3u}) {
    builder.version = version;
    const auto file = Read(builder.Finish(0));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(ValueOf<uint64_t>(*file, "u8"), 200u);
    EXPECT_EQ(ValueOf<int64_t>(*file, "i8"), -1);
    EXPECT_EQ(ValueOf<uint64_t>(*file, "u16"), 60000u);
    EXPECT_EQ(ValueOf<int64_t>(*file, "i16"), -2);
    EXPECT_EQ(ValueOf<uint64_t>(*file, "u32"), 4000000000u);
    EXPECT_EQ(ValueOf<int64_t>(*file, "i32"), -3);
    EXPECT_EQ(ValueOf<double>(*file, "f32"), 0.5);
    EXPECT_TRUE(ValueOf<bool>(*file, "yes"));
    EXPECT_FALSE(ValueOf<bool>(*file, "no"));
    EXPECT_EQ(ValueOf<std::string>(*file, "text"), "a text");
    EXPECT_EQ(ValueOf<uint64_t>(*file, "u64"), ~uint64_t{0});
    EXPECT_EQ(ValueOf<int64_t>(*file, "i64"), -4);
    EXPECT_EQ(ValueOf<double>(*file, "f64"), 0.1);
    const auto list = ValueOf<GgufValue::Array>(*file, "list");
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(std::get<std::string>(list[0].value), "x");
    const auto nested = ValueOf<GgufValue::Array>(*file, "nested");
    ASSERT_EQ(nested.size(), 1u);
    EXPECT_EQ(std::get<uint64_t>(std::get<GgufValue::Array>(nested[0].value)[0].value), 7u);
  }
}

TEST(GgufTest, TensorsComeInFileOrderSlowestDimensionFirst) {
  GgufBuilder builder;
  builder.Tensor("late", {32, 3}, kQ4_0, 64).Tensor("early", {4, 2}, kF16, 0);
  const std::string bytes = builder.Finish(64 + 3 * 18);
  const auto file = Read(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors.size(), 2u);
  const GgufTensor& early = file->tensors[0];
  EXPECT_EQ(early.name, "early");
  EXPECT_EQ(early.format, GgufFormat(ElementType::kF16));
  EXPECT_EQ(early.shape.ToString(), "[2,4]");
  EXPECT_EQ(early.bytes, 16u);
  EXPECT_EQ(early.offset, bytes.size() - 64 - 3 * 18);
  const GgufTensor& late = file->tensors[1];
  EXPECT_EQ(late.format, GgufFormat(kernels::BlockFormat::kQ4_0));
  EXPECT_EQ(late.shape.ToString(), "[3,32]");
  EXPECT_EQ(late.bytes, 3u * 18);
  EXPECT_EQ(late.offset, early.offset + 64);
}

TEST(GgufTest, EveryTensorTypeHasItsSize) {
  const std::pair<uint32_t, uint64_t> kBytesOf256[] = {
      {0, 1024}, {1, 512},   {2, 144},   {3, 160},   {6, 176},  {7, 192},  {8, 272},
      {10, 84},  {11, 110},  {12, 144},  {13, 176},  {14, 210}, {20, 144}, {24, 256},
      {25, 512}, {26, 1024}, {27, 2048}, {28, 2048}, {30, 512}};
  for (const auto& [type, bytes] : kBytesOf256) {
    GgufBuilder builder;
    builder.Tensor("t", {256}, type, 0);
    const auto file = Read(builder.Finish(bytes));
    ASSERT_TRUE(file.ok()) << "type " << type << ": " << file.status();
    EXPECT_EQ(file->tensors[0].bytes, bytes) << "type " << type;
    EXPECT_FALSE(Read(builder.Finish(bytes - 1)).ok()) << "type " << type;
  }
}

TEST(GgufTest, AlignmentIsTheFilesOwn) {
  GgufBuilder builder;
  builder.Number("general.alignment", 256).Tensor("t", {4}, kF32, 256);
  const std::string bytes = builder.Finish(256 + 16, 256);
  const auto file = Read(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors[0].offset, bytes.size() - 16);
}

TEST(GgufTest, ForgedAlignmentIsRefused) {
  for (const uint32_t alignment : {0u, 3u, 48u, 0x80000000u, 0xFFFFFFFFu}) {
    GgufBuilder builder;
    builder.Number("general.alignment", alignment).Tensor("t", {4}, kF32, 0);
    ExpectRefused(Read(builder.Finish(64)), "power of two");
  }
  ExpectRefused(Read(GgufBuilder().Text("general.alignment", "32").Finish(0)), "power of two");
  GgufBuilder builder;
  builder.Tensor("t", {4}, kF32, 8);
  ExpectRefused(Read(builder.Finish(64)), "not a multiple of 32");
}

TEST(GgufTest, EveryTruncationIsRefused) {
  GgufBuilder builder;
  builder.Text("a", "text").Array("b", kGgufString, {GgufBuilder::String("x")});
  builder.Tensor("t", {4}, kF32, 0);
  const std::string whole = builder.Finish(16);
  ASSERT_TRUE(Read(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    ExpectRefused(Read(whole.substr(0, size)), "");
  }
}

TEST(GgufTest, OtherFilesAndVersionsAreNamed) {
  GgufBuilder builder;
  builder.magic = "GGML";
  ExpectRefused(Read(builder.Finish(0)), "not a GGUF file");
  builder.magic = "GGUF";
  builder.version = 1;
  ExpectRefused(Read(builder.Finish(0)), "version 1; supported are 2 and 3");
  builder.version = 0x03000000;
  ExpectRefused(Read(builder.Finish(0)), "big-endian");
}

TEST(GgufTest, ForgedCountsCostNothing) {
  for (const uint64_t count : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 21}) {
    GgufBuilder tensors;
    tensors.forged_tensor_count = count;
    ExpectRefused(Read(tensors.Finish(64)), "over the limits");
    GgufBuilder keys;
    keys.forged_key_count = count;
    ExpectRefused(Read(keys.Finish(64)), "over the limits");
  }
  // Within the limits, but not within the file.
  GgufBuilder few;
  few.forged_tensor_count = Gguf::kMaxTensors;
  ExpectRefused(Read(few.Finish(0)), "truncated");
}

TEST(GgufTest, ForgedStringLengthsCostNothing) {
  for (const uint64_t length : {uint64_t{4} << 30, ~uint64_t{0}, uint64_t{1} << 63}) {
    GgufBuilder builder;
    builder.Raw("k", kGgufString, GgufBuilder::Little(length, 8));
    ExpectRefused(Read(builder.Finish(64)), "beyond the end");
  }
  // In a file that is large enough.
  GgufBuilder builder;
  builder.Raw("k", kGgufString, GgufBuilder::Little(Gguf::kMaxStringBytes + 1, 8));
  ExpectRefused(Read(builder.Finish(Gguf::kMaxStringBytes + 100)), "longer than");
}

TEST(GgufTest, ForgedArraysCostNothing) {
  using B = GgufBuilder;
  for (const uint64_t length : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 40}) {
    B builder;
    builder.Raw("k", kGgufArray, B::Little(0, 4) + B::Little(length, 8));
    ExpectRefused(Read(builder.Finish(64)), "beyond the end");
  }
  B many;
  many.Raw("k", kGgufArray, B::Little(0, 4) + B::Little(Gguf::kMaxValues + 1, 8));
  ExpectRefused(Read(many.Finish(Gguf::kMaxValues + 100)), "array elements");
  B unknown;
  unknown.Raw("k", kGgufArray, B::Little(13, 4) + B::Little(1, 8));
  ExpectRefused(Read(unknown.Finish(64)), "unknown value type 13");
}

TEST(GgufTest, DeepNestingStopsTheReader) {
  for (const int depth : {5, 10'000, 1'000'000}) {
    std::string payload;
    for (int i = 0; i < depth; ++i) {
      payload += GgufBuilder::Little(kGgufArray, 4) + GgufBuilder::Little(1, 8);
    }
    GgufBuilder builder;
    builder.Raw("k", kGgufArray, payload);
    ExpectRefused(Read(builder.Finish(64)), "nested deeper");
  }
}

TEST(GgufTest, ForgedDimensionsAreRefused) {
  auto refused = [](const std::vector<uint64_t>& dims, uint32_t type, const std::string& why) {
    GgufBuilder builder;
    builder.Tensor("t", dims, type, 0);
    ExpectRefused(Read(builder.Finish(1024)), "tensor 't'");
    ExpectRefused(Read(builder.Finish(1024)), why);
  };
  refused({0}, kF32, "dimension 0");
  refused({4, 0, 4}, kF32, "dimension 0");
  refused({uint64_t{1} << 63}, kF32, "out of range");
  refused({~uint64_t{0}}, kF32, "out of range");
  refused({uint64_t{1} << 62, 4}, kF32, "");
  refused({uint64_t{1} << 32, uint64_t{1} << 32, uint64_t{1} << 32}, kF32, "");
  refused({uint64_t{1} << 61}, kF32, "larger than the file");
  refused({1, 1, 1, 1, 1}, kF32, "5 dimensions");
  refused({33}, kQ4_0, "whole blocks of Q4_0");
  refused({32}, kQ6_K, "whole blocks of Q6_K");
  refused({}, kQ4_0, "whole blocks");
  refused({32}, 4, "type 4 is not supported");
  refused({32}, 0xFFFFFFFF, "is not supported");
}

TEST(GgufTest, ForgedOffsetsAreRefused) {
  for (const uint64_t offset : {uint64_t{1} << 63, ~uint64_t{31}, uint64_t{1024}}) {
    GgufBuilder builder;
    builder.Tensor("t", {4}, kF32, offset);
    ExpectRefused(Read(builder.Finish(1024)), "beyond the end");
  }
}

TEST(GgufTest, OverlapsAndDuplicatesAreRefused) {
  GgufBuilder overlap;
  overlap.Tensor("a", {16}, kF32, 0).Tensor("b", {4}, kF32, 32);
  ExpectRefused(Read(overlap.Finish(64)), "'a' and 'b' overlap");
  GgufBuilder twice;
  twice.Tensor("a", {4}, kF32, 0).Tensor("a", {4}, kF32, 32);
  ExpectRefused(Read(twice.Finish(64)), "'a' appears twice");
  GgufBuilder keys;
  keys.Number("k", 1).Number("k", 2);
  ExpectRefused(Read(keys.Finish(0)), "'k' appears twice");
}

TEST(GgufTest, ForgedValuesAreRefused) {
  ExpectRefused(Read(GgufBuilder().Raw("k", kGgufBool, "\x02").Finish(0)), "0 or 1");
  ExpectRefused(Read(GgufBuilder().Raw("k", 99, "").Finish(0)), "unknown value type 99");
  ExpectRefused(Read(GgufBuilder().Number(std::string(70'000, 'k'), 1).Finish(0)), "longer than");
  ExpectRefused(Read(GgufBuilder().Tensor(std::string(300, 't'), {4}, kF32, 0).Finish(64)),
                "longer than");
}

}  // namespace
}  // namespace npubank
