#include "npubank/lazy_tensor/sources/source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "npubank/lazy_tensor/sources/retention.h"
#include "npubank/tests/support/temporary_file.h"

namespace npubank {
namespace {

using testing::TemporaryFile;
using Bytes = std::vector<std::byte>;

Bytes Counting(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

std::shared_ptr<Source> Open(const std::string& path, FileAccess access = FileAccess::kMap) {
  return *Source::OpenFile(path, access);
}

// Moves the file's mtime, as a rewrite does, without depending on the clock's tick.
void Touch(const std::string& path) {
  struct stat facts;
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  const timespec times[2] = {facts.st_atim, {facts.st_mtim.tv_sec + 1, facts.st_mtim.tv_nsec}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(Source, TwoOpensAndAHardLinkOfOneFileAgree) {
  const TemporaryFile file(Counting(100));
  const std::string link_path = file.path() + "-link";
  ASSERT_EQ(link(file.path().c_str(), link_path.c_str()), 0);
  EXPECT_EQ(Open(file.path())->identity(), Open(file.path(), FileAccess::kRead)->identity());
  EXPECT_EQ(Open(file.path())->identity(), Open(link_path)->identity());
  unlink(link_path.c_str());
}

TEST(Source, EqualBytesInTwoFilesAreTwoSources) {
  const TemporaryFile a(Counting(100));
  const TemporaryFile b(Counting(100));
  EXPECT_NE(Open(a.path())->identity(), Open(b.path())->identity());
}

TEST(Source, AFileRewrittenInPlaceIsAnotherSource) {
  const TemporaryFile file(Counting(100));
  const Digest before = Open(file.path())->identity();
  Touch(file.path());
  const Digest later = Open(file.path())->identity();
  EXPECT_NE(before, later);
  ASSERT_EQ(truncate(file.path().c_str(), 99), 0);
  EXPECT_NE(later, Open(file.path())->identity());
}

TEST(Source, BuffersAreNeverConfusedEvenAfterOneWasFreed) {
  const Digest first = Source::FromBuffer(Counting(10), "a")->identity();
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(first, Source::FromBuffer(Counting(10), "a")->identity());
  }
}

TEST(Source, ReadAndViewGiveTheSameBytes) {
  const TemporaryFile file(Counting(10000));
  for (const auto& source : {Open(file.path()), Source::FromBuffer(Counting(10000), "b")}) {
    Bytes read(5000);
    ASSERT_EQ(source->Read(4321, absl::MakeSpan(read)), absl::OkStatus());
    const absl::Span<const std::byte> view = *source->View(4321, 5000);
    EXPECT_TRUE(std::equal(view.begin(), view.end(), read.begin(), read.end()));
    EXPECT_EQ(read[0], static_cast<std::byte>(4321 * 7));
  }
}

TEST(Source, PagesGivenBackCanBeViewedAgain) {
  const TemporaryFile file(Counting(3 * 4096 + 17));
  const auto source = Open(file.path());
  const absl::Span<const std::byte> view = *source->View(0, source->size());
  source->Release(0, source->size());
  source->Release(5000, 2);
  EXPECT_EQ(view[4096 * 3 + 16], static_cast<std::byte>((4096 * 3 + 16) * 7));
}

TEST(Source, ARangeBeyondTheEndIsRefusedAlsoWhenItsEndWraps) {
  const TemporaryFile file(Counting(100));
  Bytes out(10);
  for (const auto& source : {Open(file.path()), Source::FromBuffer(Counting(100), "b")}) {
    EXPECT_EQ(source->Read(91, absl::MakeSpan(out)).code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(source->Read(UINT64_MAX - 4, absl::MakeSpan(out)).code(),
              absl::StatusCode::kOutOfRange);
    EXPECT_EQ(source->View(1, UINT64_MAX).status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(source->View(100, 0).status(), absl::OkStatus());
  }
}

TEST(Source, AFileThatShrankIsDataLossThatNamesIt) {
  const TemporaryFile file(Counting(10000));
  const auto source = Open(file.path());
  ASSERT_EQ(truncate(file.path().c_str(), 5000), 0);
  Bytes out(10000);
  for (const absl::Status& status : {source->Read(0, absl::MakeSpan(out)),
                                     source->View(0, 10).status(), source->CheckUnchanged()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(std::string(status.message()).find(file.path()), std::string::npos) << status;
  }
}

TEST(Source, AFileThatWasWrittenToIsDataLoss) {
  const TemporaryFile file(Counting(100));
  const auto source = Open(file.path());
  EXPECT_EQ(source->CheckUnchanged(), absl::OkStatus());
  Touch(file.path());
  EXPECT_EQ(source->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

TEST(Source, AFileReplacedByRenameStaysReadableToWhoHasItOpen) {
  const TemporaryFile file(Counting(100));
  TemporaryFile next(Counting(50));
  const auto source = Open(file.path());
  ASSERT_EQ(rename(next.path().c_str(), file.path().c_str()), 0);
  Bytes out(100);
  EXPECT_EQ(source->Read(0, absl::MakeSpan(out)), absl::OkStatus());
  EXPECT_EQ(source->CheckUnchanged(), absl::OkStatus());
  EXPECT_EQ(out, Counting(100));
}

TEST(Source, WhatCannotBeOpenedSaysWhy) {
  const auto missing = Source::OpenFile("/nonexistent/model.safetensors");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(missing.status().message()).find("/nonexistent/model.safetensors"),
            std::string::npos);
  EXPECT_EQ(Source::OpenFile("/").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Source::OpenFile("/dev/null").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Source, AFifoIsRefusedWithoutWaitingForItsWriter) {
  const TemporaryFile file;
  const std::string path = file.path() + "-fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(Source::OpenFile(path).status().code(), absl::StatusCode::kInvalidArgument);
  unlink(path.c_str());
}

TEST(Source, AFileOpenedToBeReadIsNotMapped) {
  const TemporaryFile file(Counting(100));
  EXPECT_EQ(Open(file.path(), FileAccess::kRead)->View(0, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Source, AnEmptyFileIsASourceOfNothing) {
  const TemporaryFile file;
  const auto source = Open(file.path());
  EXPECT_EQ(source->size(), 0u);
  EXPECT_EQ(source->View(0, 0)->size(), 0u);
  EXPECT_EQ(source->Read(0, {}), absl::OkStatus());
}

TEST(Retention, CountsWhatIsHeldAtEveryMoment) {
  const uint64_t before = LiveSourceBytes();
  auto source = Source::FromBuffer(Counting(100), "weights");
  EXPECT_EQ(LiveSourceBytes(), before);
  {
    const SourceHold a(source, 60);
    EXPECT_EQ(LiveSourceBytes(), before + 60);
    const SourceHold b(source, 7);
    EXPECT_EQ(LiveSourceBytes(), before + 67);
    EXPECT_EQ(DescribeHeldSources(), "weights: 67 bytes held by 2 constants\n");
  }
  EXPECT_EQ(LiveSourceBytes(), before);
  EXPECT_EQ(DescribeHeldSources(), "");
}

TEST(Retention, ListsTheSourcesByName) {
  const SourceHold b(Source::FromBuffer(Counting(9), "b"), 9);
  const SourceHold a(Source::FromBuffer(Counting(5), "a"), 5);
  const std::vector<HeldSource> held = HeldSources();
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].name, "a");
  EXPECT_EQ(held[0].bytes, 5u);
  EXPECT_EQ(held[1].name, "b");
  EXPECT_EQ(held[1].holders, 1u);
}

TEST(Retention, StaysExactWhenManyThreadsHoldAndLetGo) {
  const auto source = Source::FromBuffer(Counting(100), "shared");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const SourceHold hold(source, 3);
        const auto own = Source::FromBuffer(Counting(1), "own");
        const SourceHold other(own, 1);
        if (i % 100 == 0) {
          EXPECT_GE(HeldSources().size(), 1u);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(LiveSourceBytes(), 0u) << DescribeHeldSources();
}

}  // namespace
}  // namespace npubank
