// Images where every file has one time, and copies that set it back: another model behind the inode,
// size and mtime of one whose transformed weights are in a cache.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npubank/tests/support/program.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

CheckpointShape OtherSeed() {
  CheckpointShape shape = TinyShape();
  shape.seed = 2;
  return shape;
}

TEST(SameIdentityTest, ACacheOfOneModelIsNotUsedForAnotherThatLooksTheSame) {
  const TestModel model;
  const TestModel other(OtherSeed());
  const TemporaryFolder folder;
  const std::string weights = model.file("model.safetensors");
  const auto set_back = [&] {
    const struct timespec times[] = {{1, 0}, {1, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, weights.c_str(), times, 0), 0);
  };
  const auto run = [&] {
    const ProgramResult result =
        RunProgram({NPUBANK_BIN "/bank-run", "--device", "software", "--model", model.folder(),
                    "--chunk", "4", "--prompt-ids", "1,2,3", "--tokens", "8", "--ids", "--report",
                    "json", "--cache", folder.path() + "/cache"});
    EXPECT_EQ(result.exit_status, 0) << result.error;
    return nlohmann::json::parse(result.out);
  };
  set_back();
  const nlohmann::json cold = run();
  const nlohmann::json warm = run();
  EXPECT_EQ(warm["ids"], cold["ids"]);
  EXPECT_EQ(warm["transformations"], 0) << warm.dump(1);
  const std::string bytes = ReadWholeFile(other.file("model.safetensors"));
  {
    std::fstream in_place(weights, std::ios::binary | std::ios::in | std::ios::out);
    in_place.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  set_back();
  const nlohmann::json another = run();
  EXPECT_NE(another["ids"], cold["ids"]) << "the first model's words";
  EXPECT_EQ(another["cache_hits"], 0);
  EXPECT_EQ(another["transformations"], cold["transformations"]);
}

}  // namespace
}  // namespace npubank
