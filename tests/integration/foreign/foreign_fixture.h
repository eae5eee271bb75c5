// ForeignFunctionTest: a GoogleTest fixture on the driver of another compiler's functions (tests/support/foreign_npu),
// with a manifest of five layers of one function.
//
// TearDown demands that the driver counts nothing left.
#ifndef NPUBANK_TESTS_INTEGRATION_FOREIGN_FOREIGN_FIXTURE_H_
#define NPUBANK_TESTS_INTEGRATION_FOREIGN_FOREIGN_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/runtime/manifest/manifest.h"
#include "npubank/runtime/npu.h"
#include "npubank/runtime/submodel_group.h"
#include "npubank/tests/support/driver_statistics.h"
#include "npubank/tests/support/foreign_npu/foreign_submodel.h"
#include "npubank/tests/support/npu_switches.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank {

inline std::string BytesOf(const std::vector<float>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
}

inline std::vector<float> FloatsOf(absl::Span<const std::byte> bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// The environment, for as long as the object lives: the foreign driver reads it when it matters.
class ForeignSwitch {
 public:
  ForeignSwitch(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~ForeignSwitch() { unsetenv(name_); }

 private:
  const char* const name_;
};

class ForeignFunctionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("ZE_ENABLE_ALT_DRIVERS", FOREIGN_NPU, 1); }

  void SetUp() override { Open(MemoryStrategy::kCommitted); }
  void TearDown() override {
    EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
    bank_.reset();
    const std::shared_ptr<level_zero::Device> device = npu_ ? npu_->device() : nullptr;
    npu_.reset();
    switches_.reset();  // after what was allocated under them
    if (device != nullptr) ExpectNothingLeft(*device->software(), "at the end");
  }

  void Open(MemoryStrategy strategy) {
    bank_.reset();
    npu_.reset();
    NpuOptions options = {.device = level_zero::DeviceChoice::kSoftware, .workers = 0};
    options.memory = {.strategy = strategy, .notice = [](absl::string_view) {}};
    auto npu = Npu::Open(std::move(options));
    ASSERT_TRUE(npu.ok()) << npu.status();
    npu_ = *std::move(npu);
    auto bank = npu_->MakeBank({});
    ASSERT_TRUE(bank.ok()) << bank.status();
    bank_ = *std::move(bank);
  }

  // What a user does with a manifest.
  absl::StatusOr<std::unique_ptr<SubmodelGroup>> Load(const std::string& path) {
    NPUBANK_ASSIGN_OR_RETURN(SubmodelDescription submodel, ReadManifest(path));
    EXPECT_EQ(LiveSourceBytes(), 0u) << "reading a manifest leaves the model closed";
    NPUBANK_ASSIGN_OR_RETURN(auto group,
                             SubmodelGroup::Register(npu_, bank_, {std::move(submodel)}, ""));
    NPUBANK_RETURN_IF_ERROR(group->MakeFunctions());
    EXPECT_EQ(bank_->Totals().resident_bytes, 0u) << "the driver is asked before any evaluation";
    NPUBANK_RETURN_IF_ERROR(group->Prepare());
    return group;
  }
  static absl::StatusOr<std::vector<float>> Run(SubmodelGroup& group, const std::vector<float>& x) {
    std::memcpy(group.Buffer("x").data(), x.data(), x.size() * sizeof(float));
    NPUBANK_RETURN_IF_ERROR(group.Run(0));
    return FloatsOf(group.Buffer("y"));
  }
  absl::StatusOr<std::vector<float>> LoadAndRun(const std::string& path) {
    NPUBANK_ASSIGN_OR_RETURN(auto group, Load(path));
    return Run(*group, ForeignSubmodel::Input());
  }

  // `change` makes a manifest that is refused with these words, naming the submodel or the file,
  // and the bank has evaluated nothing.
  void ExpectRefused(const std::string& words, const std::function<void(nlohmann::json&)>& change) {
    SCOPED_TRACE(words);
    nlohmann::json manifest = submodel_.manifest();
    change(manifest);
    submodel_.Rewrite(manifest);
    const absl::Status status = Load(submodel_.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(words));
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("layers"));
    EXPECT_EQ(bank_->Totals().resident_bytes, 0u);
    EXPECT_EQ(LiveSourceBytes(), 0u);
    submodel_.Rewrite(submodel_.manifest());
  }

  TemporaryFolder folder_;
  ForeignSubmodel submodel_{folder_.path()};
  std::shared_ptr<Npu> npu_;
  std::shared_ptr<Bank> bank_;
  std::optional<NpuSwitches> switches_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_INTEGRATION_FOREIGN_FOREIGN_FIXTURE_H_
