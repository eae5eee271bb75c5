#include "npubank/lazy_tensor/base/thread.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "npubank/tests/support/system/no_threads.h"

namespace npubank {
namespace {

TEST(StartThread, RunsItsBody) {
  auto value = std::make_unique<int>(1);
  int* const seen = value.get();
  std::thread thread = StartThread([value = std::move(value), seen] {
                         ++*seen;
                         EXPECT_EQ(*value, 2);
                       }).value();
  thread.join();
}

TEST(StartThread, IsAStatusWhereTheSystemHasNoThread) {
  const NoThreads none;
  const auto thread = StartThread([] { FAIL() << "there is no thread to run it"; });
  EXPECT_TRUE(absl::IsResourceExhausted(thread.status())) << thread.status();
}

}  // namespace
}  // namespace npubank
