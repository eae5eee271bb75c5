// What importing files must do, where the driver can.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/runtime/memory/accounting.h"
#include "npubank/runtime/memory/imported_files.h"
#include "npubank/runtime/memory/imports.h"
#include "npubank/runtime/memory/page_ranges.h"
#include "npubank/tests/conformance/memory/fixture.h"
#include "npubank/tests/support/gate.h"

namespace npubank {
namespace {

class ImportConformance : public MemoryFixture {
 protected:
  // Of the first file, as a load that is going to import these.
  std::unique_ptr<ImportPlan> Plan(const std::vector<std::pair<uint64_t, uint64_t>>& ranges) {
    std::vector<ImportRange> wanted;
    for (const auto& [offset, bytes] : ranges)
      wanted.push_back({sources_[0]->identity(), offset, bytes});
    return memory_->PlanImports(wanted);
  }
  absl::StatusOr<Tensor> Import(uint64_t offset, uint64_t bytes) {
    Tensor tensor;
    tensor.base = offset;
    NPUBANK_ASSIGN_OR_RETURN(tensor.memory, memory_->Import(sources_[0], offset, bytes, "tensor"));
    return tensor;
  }
  static constexpr uint64_t kPage = 4096;
};

TEST_P(ImportConformance, AFileIsImportedOnceAndSharedWithoutACopy) {
  const uint64_t copied = Driver().copied_bytes;
  const auto plan = Plan({{0, 1000}, {1024, 50000}, {64, 64}});
  auto first = memory_->Import(sources_[0], 0, 1000, "norm");
  auto second = memory_->Import(sources_[0], 1024, 50000, "wq");
  // The same file opened again is the same file.
  auto reopened = Source::OpenFile(files_[0].path());
  ASSERT_TRUE(reopened.ok());
  auto third = memory_->Import(*reopened, 64, 64, "wk");
  ASSERT_TRUE(first.ok() && second.ok() && third.ok()) << first.status() << third.status();
  EXPECT_EQ(Driver().live_imports, 1u);
  EXPECT_EQ(Driver().live_bytes, 0u) << "no memory of the device's own";
  EXPECT_EQ(Driver().copied_bytes, copied);
  EXPECT_EQ(LiveSourceBytes(), 0u) << "pages of a file are not held source bytes";
  EXPECT_EQ(static_cast<std::byte*>((*second)->address()) - 1024, (*first)->address());
  EXPECT_EQ((*first)->strategy(), "imported");
  EXPECT_EQ((*first)->reserved_bytes(), 0u);
  sources_.clear();
  reopened->reset();
  std::vector<std::byte> bytes(50000);
  ASSERT_TRUE(memory_->Read(**second, 0, absl::MakeSpan(bytes)).ok()) << "the source lives on";
  first->reset();
  third->reset();
  EXPECT_EQ(Driver().live_imports, 1u);
  second->reset();
  EXPECT_EQ(Driver().live_imports, 0u);
}

TEST_P(ImportConformance, OnlyThePagesOfWhatIsAskedForAreImported) {
  auto norm = Import(100 * kPage + 64, 1000);
  ASSERT_TRUE(norm.ok()) << norm.status();
  EXPECT_EQ(Driver().imported_bytes, kPage) << "of a file of " << kFileBytes;
  auto across = Import(200 * kPage - 64, 128);
  ASSERT_TRUE(across.ok()) << across.status();
  EXPECT_EQ(Driver().imported_bytes, 3 * kPage);
  ExpectDeviceSees(*norm);
  ExpectDeviceSees(*across);
}

TEST_P(ImportConformance, PlannedRangesThatTouchAreOneImportAndNothingElseIsImported) {
  // Two that share a page, one that begins where they end, and one apart from them.
  const std::vector<std::pair<uint64_t, uint64_t>> ranges = {
      {9 * kPage, 100}, {64, kPage}, {kPage + 128, kPage - 128}, {2 * kPage, kPage}};
  const auto plan = Plan(ranges);
  std::vector<Tensor> tensors;
  for (const auto& [offset, bytes] : ranges) {
    auto tensor = Import(offset, bytes);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    tensors.push_back(*std::move(tensor));
  }
  EXPECT_EQ(Driver().live_imports, 2u);
  EXPECT_EQ(Driver().imported_bytes, 4 * kPage);
  for (const Tensor& tensor : tensors) ExpectDeviceSees(tensor);
}

TEST_P(ImportConformance, APlanIsForgottenWithItsLoad) {
  auto plan = Plan({{0, 10 * kPage}});
  auto tensor = Import(64, 64);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(Driver().imported_bytes, 10 * kPage);
  tensor->memory.reset();
  EXPECT_EQ(Driver().imported_bytes, 0u) << "a plan alone imports nothing";
  plan.reset();
  tensor = Import(64, 64);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(Driver().imported_bytes, kPage);
}

TEST_P(ImportConformance, WhatIsImportedAlreadyIsNotPlannedAgainAndStaysForTheLoad) {
  auto first = Import(kPage, kPage);
  ASSERT_TRUE(first.ok()) << first.status();
  auto plan = Plan({{kPage + 64, 64}, {2 * kPage, kPage}});
  first->memory.reset();
  EXPECT_EQ(Driver().live_imports, 1u) << "the load is going to use it";
  auto inside = Import(kPage + 64, 64);
  auto beside = Import(2 * kPage, kPage);
  ASSERT_TRUE(inside.ok() && beside.ok()) << inside.status() << beside.status();
  EXPECT_EQ(Driver().imported_bytes, 2 * kPage) << "each page once";
  inside->memory.reset();
  EXPECT_EQ(Driver().live_imports, 2u);
  plan.reset();
  EXPECT_EQ(Driver().live_imports, 1u);
}

// Two ranges of up to five half pages in every position to each other, with and without a plan.
TEST_P(ImportConformance, RangesThatOverlapInAnyWayAreImportedBesideEachOther) {
  constexpr uint64_t kHalf = kPage / 2;
  const auto pages_of = [](uint64_t begin, uint64_t end) {
    return PageRange::Around(begin * kHalf, (end - begin) * kHalf);
  };
  for (uint64_t begin = 0; begin < 6; ++begin) {
    for (uint64_t end = begin + 1; end <= begin + 5; ++end) {
      for (const bool planned : {false, true}) {
        SCOPED_TRACE(
            absl::StrCat("[", begin, ", ", end, ") half pages", planned ? ", planned" : ""));
        auto first = Import(2 * kHalf, 3 * kHalf);  // [2, 5)
        ASSERT_TRUE(first.ok()) << first.status();
        const auto plan = planned ? Plan({{begin * kHalf, (end - begin) * kHalf}}) : nullptr;
        auto second = Import(begin * kHalf, (end - begin) * kHalf);
        ASSERT_TRUE(second.ok()) << second.status();
        const bool inside = pages_of(2, 5).Contains(pages_of(begin, end));
        EXPECT_EQ(Driver().live_imports, inside ? 1u : 2u);
        ExpectDeviceSees(*first);
        ExpectDeviceSees(*second);
        first->memory.reset();
        ExpectDeviceSees(*second);
      }
    }
  }
}

TEST_P(ImportConformance, WhatCanBeImportedIsKnownBeforeItIsTried) {
  const auto buffer = Source::FromBuffer(std::vector<std::byte>(8192), "buffer");
  const auto read = Source::OpenFile(files_[0].path(), FileAccess::kRead);
  ASSERT_TRUE(read.ok());
  const std::shared_ptr<Source> file = sources_[0];
  const struct {
    std::shared_ptr<Source> source;
    uint64_t offset, bytes;
  } ranges[] = {{file, 0, 64},     {file, 32, 64},         {file, 64, kFileBytes - 64},
                {file, 0, 0},      {file, 64, kFileBytes}, {file, ~uint64_t{63}, 128},
                {buffer, 0, 4096}, {*read, 0, 64}};
  for (const auto& [source, offset, bytes] : ranges) {
    EXPECT_EQ(memory_->CanImport(*source, offset, bytes),
              memory_->Import(source, offset, bytes, "wq").ok())
        << bytes << " bytes at " << offset << " of " << source->name();
  }
  software_->pfnFailCall("zeMemAllocHost", 1, 0, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_TRUE(memory_->CanImport(*sources_[1], 0, 64));
  EXPECT_FALSE(memory_->Import(sources_[1], 0, 64, "wq").ok());
  EXPECT_FALSE(memory_->CanImport(*sources_[1], 0, 64)) << "the kernel refused it in this load";
  memory_->Trim();
  EXPECT_TRUE(memory_->CanImport(*sources_[1], 0, 64));
  EXPECT_TRUE(memory_->traits().imports);
}

TEST_P(ImportConformance, AnImportSaysWhereItLiesInItsFile) {
  auto tensor = Import(kPage, 100);
  auto inner = Import(kPage + 64, 36);
  ASSERT_TRUE(tensor.ok() && inner.ok());
  const FileRange* const file = tensor->memory->file();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->path, files_[0].path());
  EXPECT_EQ(file->offset, kPage);
  EXPECT_EQ(file->bytes, 100u);
  EXPECT_TRUE(file->page_aligned);
  EXPECT_FALSE(inner->memory->file()->page_aligned);
  sources_.clear();
  std::vector<std::byte> stored(100), imported(100);
  ASSERT_EQ(pread(file->descriptor, stored.data(), 100, kPage), 100) << "open with the import";
  ASSERT_TRUE(memory_->Read(*tensor->memory, 0, absl::MakeSpan(imported)).ok());
  EXPECT_EQ(stored, imported);
  auto own = memory_->Allocate(100, "own");
  ASSERT_TRUE(own.ok());
  EXPECT_EQ((*own)->file(), nullptr) << "in no file";
}

TEST_P(ImportConformance, WhatIsGivenBackIsNotReadAhead) {
  Gate gate;
  auto read_ahead = std::make_shared<ReadAhead>([&](absl::Span<const std::byte>) { gate.Pass(); });
  Imports imports(device_, std::make_shared<Accounting>(), read_ahead, [](absl::string_view) {});
  auto at_work = imports.Acquire(sources_[0], 0, kPage);
  auto waiting = imports.Acquire(sources_[1], 0, 2 * kPage);
  ASSERT_TRUE(at_work.ok() && waiting.ok()) << at_work.status() << waiting.status();
  imports.WillNeed(**at_work, 0, kPage);
  gate.AwaitArrival();
  imports.WillNeed(**waiting, kPage, kPage);
  EXPECT_EQ(read_ahead->waiting_bytes(), kPage);
  waiting->reset();
  EXPECT_EQ(read_ahead->waiting_bytes(), 0u) << "these addresses are somebody else's now";
  gate.Open();
  at_work->reset();
}

TEST_P(ImportConformance, AFileThatChangedUnderAModelIsDataLossAndTheModelCanBeLoadedAgain) {
  auto first = Import(0, kPage);
  auto second = Import(8 * kPage, 64);
  auto own = memory_->Allocate(100, "own");
  ASSERT_TRUE(first.ok() && second.ok() && own.ok());
  auto other = memory_->Import(sources_[1], 0, 64, "other");
  ASSERT_TRUE(other.ok()) << other.status();
  ImportedFiles files;
  files.Add(first->memory->file());
  files.Add(second->memory->file());
  files.Add((*own)->file());
  EXPECT_EQ(files.size(), 1u) << "one look at each file";
  files.Add((*other)->file());
  EXPECT_EQ(files.size(), 2u);
  EXPECT_TRUE(files.CheckUnchanged("the model 'stories'").ok());
  {
    std::ofstream change(files_[0].path(), std::ios::in | std::ios::out | std::ios::binary);
    change.write("other words", 11);
  }
  // The file's clock may not have moved since it was written.
  const timespec times[] = {{0, UTIME_OMIT}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, files_[0].path().c_str(), times, 0), 0);
  const absl::Status status = files.CheckUnchanged("the model 'stories'");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_NE(status.message().find("the model 'stories'"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find(files_[0].path()), absl::string_view::npos) << status;
  // Beside what is left of the first load.
  auto reopened = Source::OpenFile(files_[0].path());
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  auto again = memory_->Import(*reopened, 0, kPage, "tensor");
  ASSERT_TRUE(again.ok()) << again.status();
  ImportedFiles loaded_again;
  loaded_again.Add((*again)->file());
  EXPECT_TRUE(loaded_again.CheckUnchanged("the model 'stories'").ok());
  std::vector<std::byte> read(11);
  ASSERT_TRUE(memory_->Read(**again, 0, absl::MakeSpan(read)).ok());
  EXPECT_EQ(std::memcmp(read.data(), "other words", 11), 0);
}

// Of this process: what the system cannot take from a file again.
uint64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  uint64_t kibibytes = 0;
  for (std::string word; status >> word;)
    if (word == "RssAnon:") status >> kibibytes;
  return kibibytes << 10;
}

TEST_P(ImportConformance, ALargeFileCostsNoMemoryAndNoCopies) {
  constexpr uint64_t kBytes = 256 << 20;
  const testing::TemporaryFile file;
  ASSERT_EQ(truncate(file.path().c_str(), kBytes), 0);
  auto source = Source::OpenFile(file.path());
  ASSERT_TRUE(source.ok()) << source.status();
  const uint64_t copied = Driver().copied_bytes;
  const uint64_t anonymous = AnonymousBytes();
  std::vector<ImportRange> ranges;
  for (uint64_t offset = 0; offset < kBytes; offset += 1 << 20)
    ranges.push_back({(*source)->identity(), offset, 1 << 20});
  const auto plan = memory_->PlanImports(ranges);
  std::vector<std::unique_ptr<DeviceAllocation>> tensors;
  for (uint64_t offset = 0; offset < kBytes; offset += 1 << 20) {
    auto tensor = memory_->Import(*source, offset, 1 << 20, "wq");
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    tensors.push_back(*std::move(tensor));
  }
  EXPECT_EQ(memory_->Usage().imported_bytes, kBytes);
  EXPECT_EQ(memory_->Usage().held_bytes, 0u);
  EXPECT_EQ(Driver().live_imports, 1u);
  EXPECT_EQ(Driver().copied_bytes, copied);
  EXPECT_LT(AnonymousBytes(), anonymous + (32 << 20));
}

TEST_P(ImportConformance, WhatTheDeviceCannotUseWhereItIsMustBeCopied) {
  const auto code = [&](std::shared_ptr<Source> source, uint64_t offset, uint64_t bytes) {
    return memory_->Import(std::move(source), offset, bytes, "wq").status().code();
  };
  EXPECT_EQ(code(sources_[0], 32, 64), absl::StatusCode::kFailedPrecondition) << "not aligned";
  EXPECT_EQ(code(Source::FromBuffer(std::vector<std::byte>(8192), "buffer"), 0, 64),
            absl::StatusCode::kFailedPrecondition);
  auto read = Source::OpenFile(files_[0].path(), FileAccess::kRead);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(code(*read, 0, 64), absl::StatusCode::kFailedPrecondition) << "not mapped";
  EXPECT_EQ(code(sources_[0], 0, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(sources_[0], kFileBytes / 64 * 64, 64), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(sources_[0], ~uint64_t{63}, 128), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(memory_->Usage().live_allocations, 0u);
}

TEST_P(ImportConformance, AFileThatTheKernelWillNotPinIsAskedForOncePerLoadAndSaidOnce) {
  software_->pfnFailCall("zeMemAllocHost", 1, 1, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  for (const auto& source : {sources_[0], sources_[1]}) {
    for (int tensor = 0; tensor < 50; ++tensor) {
      EXPECT_EQ(memory_->Import(source, tensor * 64, 64, "wq").status().code(),
                absl::StatusCode::kFailedPrecondition)
          << "which means: copy it";
    }
  }
  uint64_t asked = 0;
  software_->pfnCountCalls("zeMemAllocHost", &asked);
  EXPECT_EQ(asked, 2u) << "once for each file";
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_NE(notices_[0].find(sources_[0]->name()), std::string::npos) << notices_[0];
  EXPECT_EQ(npu_memory().notices(), notices_);
  software_->pfnFailCall("", 0, 0, ZE_RESULT_SUCCESS);
  EXPECT_FALSE(memory_->Import(sources_[0], 0, 64, "wq").ok()) << "the load is not over";
  EXPECT_TRUE(memory_->Import(sources_[2], 0, 64, "wq").ok()) << "a file never refused";
  memory_->Trim();
  EXPECT_TRUE(memory_->Import(sources_[0], 0, 64, "wq").ok()) << "the next load asks again";
}

TEST_P(ImportConformance, ADriverThatListsImportsButHasNoneIsAskedOnceForAllFilesAndLoads) {
  software_->pfnFailCall("zeMemAllocHost", 1, 1, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  for (int load = 0; load < 3; ++load) {
    for (const auto& source : sources_) {
      EXPECT_EQ(memory_->Import(source, 0, 64, "wq").status().code(),
                absl::StatusCode::kUnimplemented);
    }
    memory_->Trim();
  }
  uint64_t asked = 0;
  software_->pfnCountCalls("zeMemAllocHost", &asked);
  EXPECT_EQ(asked, 1u);
  EXPECT_EQ(notices_.size(), 1u);
}

TEST_P(ImportConformance, AFileThatTheSystemWillNotMapIsCopied) {
  // A file of the kernel's own stands for a file system that cannot map.
  class Unmappable : public Source {
   public:
    Unmappable() : Source("unmappable", Digest{1, 1}, kFileBytes) {}
    ~Unmappable() override { close(descriptor_); }
    bool persistent() const override { return true; }
    bool mappable() const override { return true; }
    int descriptor() const override { return descriptor_; }
    absl::Status Read(uint64_t, absl::Span<std::byte>) const override { return absl::OkStatus(); }
    absl::StatusOr<absl::Span<const std::byte>> View(uint64_t, uint64_t) const override {
      return absl::UnavailableError("cannot map: no such device");
    }
    void Release(uint64_t, uint64_t) const override {}

   private:
    const int descriptor_ = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  };
  EXPECT_EQ(memory_->Import(std::make_shared<Unmappable>(), 0, 64, "wq").status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "which means: copy it";
}

TEST_P(ImportConformance, AChangedFileIsDataLoss) {
  ASSERT_EQ(truncate(files_[1].path().c_str(), 4096), 0);
  EXPECT_EQ(memory_->Import(sources_[1], 0, 64, "wq").status().code(), absl::StatusCode::kDataLoss);
}

TEST_P(ImportConformance, ImportedTensorsAreNotWritten) {
  auto tensor = Make(4096);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(Write(*memory_, *tensor, 1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(ImportConformance, ThreadsThatComeAndGoShareOneImport) {
  const auto plan = Plan({{0, 200 * 64}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) {
        auto tensor = memory_->Import(sources_[0], i * 64, 64, "wq");
        ASSERT_TRUE(tensor.ok()) << tensor.status();
        EXPECT_EQ(Driver().live_imports, 1u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Driver().live_imports, 0u);
}

INSTANTIATE_TEST_SUITE_P(Only, ImportConformance, ::testing::Values(MemoryKind::kImported),
                         MemoryTestName);

}  // namespace
}  // namespace npubank
