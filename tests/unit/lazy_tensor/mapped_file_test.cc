#include "npubank/lazy_tensor/sources/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "npubank/lazy_tensor/sources/source.h"
#include "npubank/tests/support/temporary_file.h"

namespace npubank {
namespace {

using testing::TemporaryFile;
using Bytes = std::vector<std::byte>;
constexpr size_t kPage = 4096;

struct OpenFile {
  TemporaryFile file{Bytes(8 * kPage, std::byte{7})};
  int fd = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
  std::unique_ptr<MappedFile> mapping = MappedFile::Map(fd, 8 * kPage);

  ~OpenFile() { close(fd); }
  void Shrink() { ASSERT_EQ(ftruncate(fd, kPage), 0); }
  bool Has(size_t page, std::byte value) const {
    const absl::Span<const std::byte> bytes = mapping->bytes().subspan(page * kPage, kPage);
    return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
  }
};

TEST(MappedFile, HasTheBytesOfTheFile) {
  const OpenFile open;
  ASSERT_NE(open.mapping, nullptr);
  EXPECT_EQ(open.mapping->bytes().size(), 8 * kPage);
  for (size_t page = 0; page < 8; ++page) EXPECT_TRUE(open.Has(page, std::byte{7}));
  EXPECT_FALSE(open.mapping->lost());
}

TEST(MappedFile, APageTheFileHasLostReadsAsZerosAndIsNoted) {
  OpenFile open;
  open.Shrink();
  EXPECT_TRUE(open.Has(0, std::byte{7}));
  EXPECT_FALSE(open.mapping->lost()) << "nobody has read what is gone";
  EXPECT_TRUE(open.Has(5, std::byte{0}));
  EXPECT_TRUE(open.mapping->lost());
  EXPECT_TRUE(open.Has(0, std::byte{7})) << "what the file still has stays";
}

TEST(MappedFile, ItsEndGivesItsAddressesBack) {
  OpenFile open;
  void* const data = const_cast<std::byte*>(open.mapping->bytes().data());
  ASSERT_EQ(msync(data, 8 * kPage, MS_ASYNC), 0) << "mapped";
  open.mapping.reset();
  EXPECT_EQ(msync(data, kPage, MS_ASYNC), -1);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(MappedFile, TheNextMappingHasLostNothing) {
  {
    OpenFile open;
    open.Shrink();
    EXPECT_TRUE(open.Has(5, std::byte{0}));
  }
  const OpenFile next;
  EXPECT_TRUE(next.Has(5, std::byte{7}));
  EXPECT_FALSE(next.mapping->lost());
}

TEST(MappedFile, PagesGivenBackAreReadAgain) {
  const OpenFile open;
  EXPECT_TRUE(open.Has(3, std::byte{7}));
  open.mapping->Release(0, 8 * kPage);
  open.mapping->Release(kPage + 1, 2);
  EXPECT_TRUE(open.Has(3, std::byte{7}));
}

TEST(MappedFile, ManyThreadsMayMeetTheLoss) {
  for (int round = 0; round < 20; ++round) {
    OpenFile open;
    open.Shrink();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const OpenFile own;
        for (size_t page = 1; page < 8; ++page) {
          EXPECT_TRUE(open.Has(page, std::byte{0}));
          EXPECT_TRUE(own.Has(page, std::byte{7}));
        }
        EXPECT_FALSE(own.mapping->lost());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(open.mapping->lost());
  }
}

TEST(MappedFile, ASourceThatLostAPageIsDataLossAlsoWhenTheFileLooksWholeAgain) {
  const TemporaryFile file(Bytes(8 * kPage, std::byte{7}));
  const auto source = *Source::OpenFile(file.path());
  struct stat facts;
  ASSERT_EQ(stat(file.path().c_str(), &facts), 0);
  ASSERT_EQ(truncate(file.path().c_str(), kPage), 0);
  EXPECT_EQ(source->InPlace()[5 * kPage], std::byte{0});
  ASSERT_EQ(truncate(file.path().c_str(), 8 * kPage), 0);
  const timespec times[2] = {facts.st_atim, facts.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, file.path().c_str(), times, 0), 0);
  const absl::Status status = source->CheckUnchanged();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(std::string(status.message()).find("could not be read"), std::string::npos) << status;
}

// A mapping of somebody else, whose file has shrunk.
volatile char* ForeignLostPage() {
  static const TemporaryFile file(Bytes(2 * kPage));
  const int fd = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
  void* const data = mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, fd, 0);
  EXPECT_EQ(ftruncate(fd, 0), 0);
  close(fd);
  return static_cast<volatile char*>(data);
}

TEST(MappedFileDeathTest, ASignalAtAnyOtherAddressStillEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const OpenFile open;
        (void)*ForeignLostPage();
      },
      "");
}

sigjmp_buf jump;

TEST(MappedFileDeathTest, ASignalAtAnyOtherAddressGoesToTheHandlerThatWasThereBefore) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto catch_one = [] {
    struct sigaction action = {};
    action.sa_handler = [](int) { siglongjmp(jump, 1); };
    sigaction(SIGBUS, &action, nullptr);
    const OpenFile open;  // the first of this process
    if (sigsetjmp(jump, 1) == 0) {
      (void)*ForeignLostPage();
      std::exit(1);
    }
    std::exit(3);
  };
  EXPECT_EXIT(catch_one(), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace npubank
