// TestModel: a tiny Llama-shaped checkpoint in a temporary folder, gone when the object goes.
//
//   TestModel model;                       // 3 layers, 64 wide
//   options.model = model.folder();
#ifndef NPUBANK_TESTS_SUPPORT_TEST_MODEL_H_
#define NPUBANK_TESTS_SUPPORT_TEST_MODEL_H_

#include <gtest/gtest.h>

#include <string>

#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tools/checkpoints/checkpoint_writer.h"

namespace npubank {

inline CheckpointShape TinyShape() {
  return {.layers = 3,
          .hidden = 64,
          .heads = 4,
          .kv_heads = 2,
          .intermediate = 96,
          .vocab = 128,
          .context = 64};
}

// The same with its data on cache lines, so that a device which wants arguments there imports all of it.
inline CheckpointShape PaddedShape() {
  CheckpointShape shape = TinyShape();
  shape.padded = true;
  return shape;
}

class TestModel {
 public:
  explicit TestModel(const CheckpointShape& shape = TinyShape()) {
    const auto written = WriteCheckpoint(shape, folder_.path());
    EXPECT_TRUE(written.ok()) << written.status();
    if (written.ok()) model_ = *written;
  }
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;

  std::string folder() const { return folder_.path(); }
  // What Checkpoint::Open and --model take: the folder, or a file in it.
  const std::string& model() const { return model_; }
  std::string file(const std::string& name) const { return folder_.File(name); }

 private:
  TemporaryFolder folder_;
  std::string model_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_TEST_MODEL_H_
