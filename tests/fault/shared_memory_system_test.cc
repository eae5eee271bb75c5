// Shared memory and the system under it: any of its calls may fail, once and for ever.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/shared_memory.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/tests/support/system/file_faults.h"
#include "npubank/tests/support/system/no_threads.h"
#include "npubank/tests/support/system/system_calls.h"

namespace npubank::service {
namespace {

class SharedMemorySystemTest : public ::testing::Test {
 protected:
  using Memory = std::unique_ptr<DeviceAllocation>;

  static size_t OpenFiles() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  }
  static int ValueOf(const DeviceAllocation& memory) {
    return static_cast<int>(memory.bytes() % 251);
  }

  absl::StatusOr<Memory> Make(uint64_t bytes) {
    NPUBANK_ASSIGN_OR_RETURN(Memory made, memory_->Allocate(bytes, "tensor"));
    NPUBANK_RETURN_IF_ERROR(memory_->Write(*made, [&](uint64_t, absl::Span<std::byte> out) {
      std::memset(out.data(), ValueOf(*made), out.size());
      return absl::OkStatus();
    }));
    return made;
  }

  // A load's work: tensors of all sizes, handed out, one dropped before that and one after.
  absl::Status LoadAndShare(std::vector<Memory>& kept) {
    for (const uint64_t bytes : {100u, 70000u, 3u << 20, 5000u, 2u << 20, 200u}) {
      NPUBANK_ASSIGN_OR_RETURN(Memory made, Make(bytes));
      kept.push_back(std::move(made));
      if (bytes == 70000) kept.erase(kept.begin());
    }
    for (const Memory& memory : kept) {
      NPUBANK_ASSIGN_OR_RETURN(const auto segment, memory_->SealedSegment(*memory->file()));
      NPUBANK_RETURN_IF_ERROR(segment->OpenForReading().status());
    }
    kept.erase(kept.begin());
    return memory_->DriverBytes().status();
  }

  void ExpectWhole(const std::vector<Memory>& kept) {
    for (const Memory& memory : kept) {
      std::vector<std::byte> bytes(memory->bytes());
      EXPECT_TRUE(memory_->Read(*memory, 0, absl::MakeSpan(bytes)).ok());
      EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size(), std::byte(ValueOf(*memory))));
    }
  }

  // With `arm` making a call fail: a named error or success, whole tensors, exact books, and
  // afterwards nothing left and the next try succeeds. False when nothing failed any more.
  template <typename Arm>
  bool LoadsWhatever(absl::StatusCode code, Arm arm) {
    const size_t open_files = OpenFiles();
    bool happened = false;
    std::vector<Memory> kept;
    {
      const auto armed = arm(happened);
      const absl::Status status = LoadAndShare(kept);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), code) << status;
        EXPECT_NE(status.message().find('\''), std::string::npos) << "names it: " << status;
      }
    }
    ExpectWhole(kept);
    EXPECT_GE(memory_->DriverBytes().value(), memory_->Usage().asked_bytes);
    kept.clear();
    EXPECT_EQ(memory_->Usage().held_bytes, 0u);
    EXPECT_EQ(OpenFiles(), open_files) << "a descriptor was left open";
    const absl::Status again = LoadAndShare(kept);
    EXPECT_TRUE(again.ok()) << again;
    ExpectWhole(kept);
    return happened;
  }

  std::shared_ptr<SharedMemory> memory_ = SharedMemory::Create({.huge_pages = false}).value();
};

TEST_F(SharedMemorySystemTest, WhateverCallFailsTheErrorIsNamedAndNothingIsLeft) {
  const auto exhausted = absl::StatusCode::kResourceExhausted;
  const std::vector<std::tuple<SystemCall, int, absl::StatusCode>> faults = {
      {SystemCall::kMemory, EMFILE, exhausted},
      {SystemCall::kMemory, ENFILE, exhausted},
      {SystemCall::kMemory, ENOMEM, exhausted},
      {SystemCall::kOpen, EMFILE, exhausted},
      {SystemCall::kLength, ENOMEM, exhausted},
      {SystemCall::kControl, ENOMEM, exhausted},
      {SystemCall::kControl, EBUSY, absl::StatusCode::kUnavailable},
      {SystemCall::kDuplicate, EBUSY, absl::StatusCode::kUnavailable},
      {SystemCall::kSpace, ENOMEM, exhausted},
      {SystemCall::kSpace, ENOSPC, exhausted},
      {SystemCall::kStat, EIO, absl::StatusCode::kUnavailable}};
  for (const auto& [call, error, code] : faults) {
    for (const bool forever : {false, true}) {
      uint64_t nth = 1;
      for (;; ++nth) {
        SCOPED_TRACE(absl::StrCat("call ", static_cast<int>(call), ", ", std::strerror(error),
                                  ", number ", nth, forever ? " and all after it" : ""));
        const bool happened = LoadsWhatever(code, [&, failing = call, with = error](bool& failed) {
          return std::make_unique<SystemCalls>(
              [&, failing, with, seen = uint64_t{0}](SystemCall made, const char*) mutable {
                if (made != failing) return 0;
                ++seen;
                const bool fails = forever ? seen >= nth : seen == nth;
                failed |= fails;
                return fails ? with : 0;
              });
        });
        if (!happened || HasFailure()) break;
      }
      EXPECT_GT(nth, 1u) << "no such call is made: " << static_cast<int>(call);
    }
  }
}

TEST_F(SharedMemorySystemTest, WhateverWriteFailsTheErrorIsNamedAndNothingIsLeft) {
  for (const int error : {ENOSPC, ENOMEM}) {
    uint64_t nth = 1;
    for (;; ++nth) {
      SCOPED_TRACE(absl::StrCat("write ", nth, ": ", std::strerror(error)));
      struct Armed {
        Armed(uint64_t n, int code, bool& failed)
            : fault(FileFault::kWrite, n, code), happened(failed) {}
        ~Armed() { happened = fault.happened(); }
        FileFault fault;
        bool& happened;
      };
      const bool happened = LoadsWhatever(absl::StatusCode::kResourceExhausted, [&](bool& failed) {
        return std::make_unique<Armed>(nth, error, failed);
      });
      if (!happened || HasFailure()) break;
    }
    EXPECT_GT(nth, 1u);
  }
}

TEST_F(SharedMemorySystemTest, MemoryIsAskedForAgainWhenASignalCameBetween) {
  int signals = 0;
  const SystemCalls calls([&](SystemCall made, const char*) {
    return made == SystemCall::kSpace && ++signals < 4 ? EINTR : 0;
  });
  const absl::StatusOr<Memory> made = Make(3 << 20);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(signals, 4);
}

TEST_F(SharedMemorySystemTest, ShortWritesAreGoneOnWith) {
  const ShortTransfers few(1000);
  std::vector<Memory> kept;
  ASSERT_TRUE(LoadAndShare(kept).ok());
  ExpectWhole(kept);
}

TEST_F(SharedMemorySystemTest, WithoutAThreadForHugePagesItSaysSo) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a program that gets no thread";
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer ends a program that gets no thread";
#endif
#endif
  const NoThreads none;
  EXPECT_EQ(SharedMemory::Create({}).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace npubank::service
