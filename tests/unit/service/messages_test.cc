// Messages: what was said is what arrives, and no bytes are more than an error.
#include "npubank/bank/service/wire/messages.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace npubank::service {
namespace {

std::vector<Message> OneOfEach() {
  State state;
  state.snapshot = "snapshot";
  state.clients = {{.pid = 1,
                    .uid = 2,
                    .program = "p",
                    .sources = 3,
                    .owners = {"a", "b"},
                    .leased_segments = 4,
                    .leased_bytes = 5,
                    .loading = "c",
                    .segments = {8, 9}}};
  state.evaluations = 6;
  state.memory_bytes = 7;
  state.audit = {"x"};
  state.segments = {
      {.number = 8, .name = "wq", .bytes = 4096, .memory_bytes = 8192, .tensors = 2, .kept = true}};
  state.adopted = 10;
  state.kept_problems = {"y", "z"};
  return {Hello{.program = "test"},
          Failed{absl::NotFoundError("not there")},
          OpenSources{{"a", "b"}},
          SourcesOpened{{{1, 2, {3, 4}, {5, 6}}}},
          Load{"owner", {{"recipes", {1, 2}, {3, 4}, {"a", "b"}}}, /*if_there=*/true},
          Progress{1, 2, "tensor"},
          Loaded{{{{1, 2}, {3, 4}, 0, 5}}, {{6, 7}}},
          More{8},
          Descriptors{},
          Cancel{},
          Release{{1, 2}, {3, 4}},
          GetState{},
          state,
          SetBudget{9},
          Done{}};
}

TEST(MessagesTest, EachKindIsReadAsItWasWritten) {
  const std::vector<Message> all = OneOfEach();
  ASSERT_EQ(all.size(), std::variant_size_v<Message>);
  for (const Message& message : all) {
    const std::string bytes = Encode(message);
    const auto read = Decode(bytes);
    ASSERT_TRUE(read.ok()) << NameOf(message) << ": " << read.status();
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(Encode(*read), bytes) << NameOf(message);
  }
  EXPECT_TRUE(std::get<Load>(*Decode(Encode(Load{.owner = "", .lists = {}, .if_there = true}))).if_there);
  const auto failed = Decode(Encode(Failed{absl::NotFoundError("not there")}));
  EXPECT_EQ(std::get<Failed>(*failed).status, absl::NotFoundError("not there"));
}

TEST(MessagesTest, BytesThatAreCutOrChangedAreAnErrorOrAnotherMessageAndNoHarm) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const Message& message : OneOfEach()) {
    const std::string bytes = Encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) (void)Decode(bytes.substr(0, size));
    for (int i = 0; i < 300; ++i) {
      std::string changed = bytes;
      for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
        changed[random() % changed.size()] = static_cast<char>(random());
      const auto read = Decode(changed);
      EXPECT_TRUE(!read.ok() || Decode(Encode(*read)).ok());
    }
  }
}

TEST(MessagesTest, CountsThatDoNotFitTogetherAreRefused) {
  EXPECT_FALSE(Decode(Encode(Release{{1, 2}, {3}})).ok());
  EXPECT_FALSE(Decode(Encode(Load{"o", {{"r", {}, {1}, {}}}})).ok());
  EXPECT_FALSE(Decode(Encode(Loaded{{{{}, {}, 1, 0}}, {{1, 1}}})).ok()) << "a segment beyond";
  EXPECT_FALSE(Decode(Encode(Hello{.program = std::string(kMostNameBytes + 1, 'x')})).ok());
  EXPECT_FALSE(Decode("").ok());
}

}  // namespace
}  // namespace npubank::service
