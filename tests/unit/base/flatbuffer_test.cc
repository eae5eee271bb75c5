#include "npubank/lazy_tensor/base/flatbuffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/unit/base/example_generated.h"

namespace npubank {
namespace {

using example::CreateExample;
using example::Example;

absl::StatusOr<FlatbufferRoot<Example>> Open(absl::string_view bytes,
                                             FlatbufferLimits limits = {}) {
  return FlatbufferRoot<Example>::Open(bytes, example::ExampleIdentifier(), "good example", limits);
}

// Tables in tables, `depth` of them below the root.
std::string ExampleBytes(int depth = 1, const char* identifier = example::ExampleIdentifier()) {
  flatbuffers::FlatBufferBuilder builder;
  flatbuffers::Offset<Example> inner;
  for (int level = 0; level <= depth; ++level) {
    const auto name = builder.CreateString("level" + std::to_string(level));
    const auto numbers = builder.CreateVector(std::vector<uint64_t>{1, 2, 3});
    std::vector<flatbuffers::Offset<Example>> parts;
    if (level > 0) parts.push_back(inner);
    inner = CreateExample(builder, name, numbers, builder.CreateVector(parts));
  }
  builder.Finish(inner, identifier);
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

void ExpectRefused(const absl::StatusOr<FlatbufferRoot<Example>>& root, absl::string_view why) {
  ASSERT_TRUE(absl::IsInvalidArgument(root.status())) << root.status();
  EXPECT_EQ(root.status().message(), why);
}

TEST(FlatbufferRoot, ReadsWhatWasWritten) {
  const std::string bytes = ExampleBytes(2);
  auto opened = Open(bytes);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const FlatbufferRoot<Example> root = *std::move(opened);
  EXPECT_EQ(TextOf(root->name()), "level2");
  ASSERT_EQ(SizeOf(root->parts()), 1u);
  EXPECT_EQ(TextOf(root->parts()->Get(0)->name()), "level1");
}

// UndefinedBehaviorSanitizer sees a number that is read where it may not lie.
TEST(FlatbufferRoot, ReadsBytesThatLieAnywhere) {
  const std::string bytes = ExampleBytes();
  for (size_t shift = 0; shift < 8; ++shift) {
    std::vector<uint64_t> room(bytes.size() / sizeof(uint64_t) + 2);
    char* const at = reinterpret_cast<char*>(room.data()) + shift;
    std::memcpy(at, bytes.data(), bytes.size());
    auto opened = Open(absl::string_view(at, bytes.size()));
    ASSERT_TRUE(opened.ok()) << opened.status();
    const FlatbufferRoot<Example> root = *std::move(opened);
    ASSERT_EQ(SizeOf(root->numbers()), 3u);
    EXPECT_EQ(root->numbers()->Get(2), 3u);
  }
}

TEST(FlatbufferRoot, WhatIsAbsentIsEmpty) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(CreateExample(builder), example::ExampleIdentifier());
  const std::string bytes(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                          builder.GetSize());
  const auto root = Open(bytes);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(TextOf((*root)->name()), "");
  EXPECT_EQ(SizeOf((*root)->parts()), 0u);
}

TEST(FlatbufferRoot, TooFewOrTooManyBytesAreRefused) {
  ExpectRefused(Open(""), "not a good example: it has 0 bytes, not 8 to 1073741824");
  ExpectRefused(Open("NPEX"), "not a good example: it has 4 bytes, not 8 to 1073741824");
  const std::string bytes = ExampleBytes();
  EXPECT_TRUE(Open(bytes, {.bytes = bytes.size()}).ok());
  EXPECT_FALSE(Open(bytes, {.bytes = bytes.size() - 1}).ok());
}

TEST(FlatbufferRoot, AnotherKindIsRefusedByName) {
  ExpectRefused(Open(ExampleBytes(1, "NPXX")), "not a good example: its identifier is not 'NPEX'");
}

TEST(FlatbufferRoot, DepthAndTablesAreBounded) {
  const std::string bytes = ExampleBytes(/*depth=*/3);
  EXPECT_TRUE(Open(bytes, {.depth = 4}).ok());
  ExpectRefused(Open(bytes, {.depth = 3}), "corrupt good example: it refers beyond its end");
  EXPECT_TRUE(Open(bytes, {.tables = 4}).ok());
  EXPECT_FALSE(Open(bytes, {.tables = 3}).ok());
}

void ReadAll(const Example& example) {
  volatile uint64_t sum = TextOf(example.name()).size();
  for (const char letter : TextOf(example.name())) sum = sum + static_cast<uint8_t>(letter);
  for (uint32_t i = 0; i < SizeOf(example.numbers()); ++i) {
    uint64_t number;
    std::memcpy(&number, example.numbers()->Data() + i * sizeof(number), sizeof(number));
    sum = sum + number;
  }
  for (uint32_t i = 0; i < SizeOf(example.parts()); ++i) ReadAll(*example.parts()->Get(i));
}

// AddressSanitizer sees a read beyond the block, which is as large as the bytes.
TEST(FlatbufferRoot, WhateverIsCutOrChangedIsRefusedOrCanBeReadToTheEnd) {
  const std::string bytes = ExampleBytes(2);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    const auto root = Open(absl::string_view(cut.data(), cut.size()));
    if (root.ok()) ReadAll(**root);
  }
  std::mt19937_64 random(PrintedSeed());
  const int rounds = Repetitions(200'000);
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<char> changed(bytes.begin(), bytes.end());
    for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    const auto root = Open(absl::string_view(changed.data(), changed.size()));
    if (root.ok()) ReadAll(**root);
    refused += !root.ok();
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, rounds);
}

}  // namespace
}  // namespace npubank
