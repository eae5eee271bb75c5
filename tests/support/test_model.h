// TestModel: a tiny Llama-shaped checkpoint in a temporary folder, gone when the object goes.
//
//   TestModel model;                       // 3 layers, 64 wide
//   options.model = model.folder();
#ifndef NPUBANK_TESTS_SUPPORT_TEST_MODEL_H_
#define NPUBANK_TESTS_SUPPORT_TEST_MODEL_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "npubank/tools/checkpoint_writer.h"

namespace npubank {

inline CheckpointShape TinyShape() {
  CheckpointShape shape;
  shape.layers = 3;
  shape.hidden = 64;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.intermediate = 96;
  shape.vocab = 128;
  shape.context = 64;
  return shape;
}

class TestModel {
 public:
  explicit TestModel(const CheckpointShape& shape = TinyShape()) {
    static int number = 0;
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("npubank_model_" + std::to_string(getpid()) + "_" + std::to_string(number++));
    const absl::Status status = WriteCheckpoint(shape, folder_.string());
    EXPECT_TRUE(status.ok()) << status;
  }
  ~TestModel() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;

  std::string folder() const { return folder_.string(); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_TEST_MODEL_H_
