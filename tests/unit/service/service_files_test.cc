// Files that shrink or are written to while the daemon reads them for a client.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "npubank/lazy_tensor/base/parallel.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/lazy_tensor/sources/source_index.h"
#include "npubank/tests/support/temporary_file.h"
#include "npubank/tests/unit/service/service_fixture.h"

namespace npubank::service {
namespace {

// Does something once, when an evaluation has begun and before its first tile.
class Interrupted final : public Workers {
 public:
  std::function<void()> at_first_tile;

  int count() const override { return 2; }

 private:
  void Run(int64_t, absl::FunctionRef<void()> work) override {
    if (at_first_tile) std::exchange(at_first_tile, nullptr)();
    work();
  }
};

// A matrix of 4 MiB in a file of its own, which a submodel has transposed.
struct LargeMatrix {
  static constexpr int64_t kSide = 1024;
  const TensorType type =
      TensorType::Create(ElementType::kF32, Shape::Create({kSide, kSide}).value()).value();
  const testing::TemporaryFile file{CountingFloats(kSide * kSide)};

  Owner Register(const TestProcess& process) const {
    auto index = std::make_shared<SourceIndex>(file.path());
    const uint32_t number = index->AddFile(SourceOpener::Path(file.path())).value();
    EXPECT_TRUE(index->Add({"wq", type, number, 0}).ok());
    Owner owner = process.bank->AddOwner("submodel", {.index = std::move(index)});
    const LazyTensor stored =
        LazyTensor::Constant(Source::OpenFile(file.path()).value(), 0, type, "wq").value();
    EXPECT_TRUE(process.bank->Register(owner, stored.Permute({1, 0}).value(), "wq").ok());
    return owner;
  }
};

class ServiceFilesTest : public ServiceTest {
 protected:
  void SetUp() override { StartDaemon({.workers = workers_, .keep_unowned = true}); }

  // The client's error, when `change` happens while the daemon evaluates; nobody else notices.
  absl::Status LoadWhile(const LargeMatrix& matrix, const std::function<void()>& change) {
    const TestWeights others(2);
    TestProcess other(NewClient());
    const auto theirs = other.Load(others);
    TestProcess process(NewClient());
    const Owner owner = matrix.Register(process);
    bool happened = false;
    workers_->at_first_tile = [&] {
      change();
      happened = true;
    };
    const absl::Status status = process.bank->Load(owner).status();
    EXPECT_TRUE(happened);
    EXPECT_EQ(daemon_->Totals().evaluations, others.size())
        << "what the daemon made of it is nobody's";
    ExpectBytes(theirs, others);
    ExpectBytes(TestProcess(NewClient()).Load(others), others);
    return status;
  }

  const std::shared_ptr<Interrupted> workers_ = std::make_shared<Interrupted>();
};

TEST_F(ServiceFilesTest, AFileThatShrinksWhileTheDaemonReadsItIsAnErrorThatNamesItAndNoByte) {
  for (const off_t left : {off_t{0}, off_t{4096}, off_t{(4 << 20) - 1}}) {
    const LargeMatrix matrix;
    const absl::Status status =
        LoadWhile(matrix, [&] { EXPECT_EQ(truncate(matrix.file.path().c_str(), left), 0); });
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(status.message().find(matrix.file.path()), std::string::npos) << status;
    StartDaemon({.workers = workers_, .keep_unowned = true});
  }
}

TEST_F(ServiceFilesTest, AFileThatIsWrittenToWhileTheDaemonReadsItIsAnErrorAndNoByte) {
  const LargeMatrix matrix;
  const absl::Status status = LoadWhile(matrix, [&] {
    const auto written = std::filesystem::last_write_time(matrix.file.path());
    std::filesystem::last_write_time(matrix.file.path(), written + std::chrono::seconds(1));
  });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

}  // namespace
}  // namespace npubank::service
