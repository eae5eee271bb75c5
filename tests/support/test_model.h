// TestModel: a tiny Llama-shaped checkpoint in a temporary folder, gone when the object goes.
//
//   TestModel model;                       // 3 layers, 64 wide
//   options.model = model.folder();
#ifndef NPUBANK_TESTS_SUPPORT_TEST_MODEL_H_
#define NPUBANK_TESTS_SUPPORT_TEST_MODEL_H_

#include <gtest/gtest.h>

#include <string>

#include "npubank/tests/support/temporary_folder.h"
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
    const absl::Status status = WriteCheckpoint(shape, folder_.path());
    EXPECT_TRUE(status.ok()) << status;
  }
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;

  std::string folder() const { return folder_.path(); }
  std::string file(const std::string& name) const { return folder_.File(name); }

 private:
  TemporaryFolder folder_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_TEST_MODEL_H_
