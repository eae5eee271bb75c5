#include "npubank/lazy_tensor/base/live_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace npubank {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

TEST(LiveObjects, AreCountedByKindAndName) {
  const LiveObject one("test object", "a");
  std::optional<LiveObject> other(std::in_place, "test object", "a");
  const LiveObject nameless("test object");
  EXPECT_THAT(LiveObjects(), Contains(Pair("test object 'a'", 2)));
  EXPECT_THAT(LiveObjects(), Contains(Pair("test object", 1)));
  other.reset();
  EXPECT_THAT(LiveObjects(), Contains(Pair("test object 'a'", 1)));
}

TEST(LiveObjects, MovedOnesAreCountedOnce) {
  {
    LiveObject from("test object", "moved");
    LiveObject to(std::move(from));
    EXPECT_THAT(LiveObjects(), Contains(Pair("test object 'moved'", 1)));
    to = LiveObject();
    EXPECT_THAT(LiveObjects(), Not(Contains(Key("test object 'moved'"))));
  }
  EXPECT_THAT(LiveObjects(), Not(Contains(Key("test object 'moved'"))));
}

}  // namespace
}  // namespace npubank
