#include "npubank/bank/service/segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "npubank/tests/support/temporary_folder.h"

namespace npubank::service {
namespace {

constexpr uint64_t kBytes = 3 * Segment::kPage;

std::vector<std::byte> Bytes(uint64_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed);
  return bytes;
}

std::shared_ptr<Segment> SealedSegment() {
  auto segment = Segment::Create("wq").value();
  EXPECT_TRUE(segment->Write(0, Bytes(kBytes, 1)).ok());
  EXPECT_TRUE(segment->Seal(kBytes).ok());
  return segment;
}

std::vector<std::byte> Contents(const Segment& segment) {
  std::vector<std::byte> bytes(segment.sealed_bytes());
  EXPECT_TRUE(segment.Read(0, absl::MakeSpan(bytes)).ok());
  return bytes;
}

std::string NameInProc(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

TEST(Segment, HoldsWhatWasWrittenAndKeepsItsDescriptor) {
  auto segment = Segment::Create("wq").value();
  const int descriptor = segment->descriptor();
  EXPECT_FALSE(segment->sealed());
  ASSERT_TRUE(segment->Write(Segment::kPage, Bytes(kBytes - Segment::kPage, 2)).ok());
  ASSERT_TRUE(segment->Write(0, Bytes(Segment::kPage, 3)).ok());
  EXPECT_EQ(segment->MemoryBytes().value(), kBytes);
  ASSERT_TRUE(segment->GiveBack(Segment::kPage, Segment::kPage).ok());
  EXPECT_EQ(segment->MemoryBytes().value(), kBytes - Segment::kPage);
  EXPECT_EQ(segment->OpenForReading().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(segment->Seal(kBytes).ok());
  EXPECT_EQ(segment->descriptor(), descriptor);
  EXPECT_EQ(segment->sealed_bytes(), kBytes);
  EXPECT_EQ(fcntl(descriptor, F_GETFL) & O_ACCMODE, O_RDONLY) << "this process cannot either";
  std::vector<std::byte> first(Segment::kPage);
  ASSERT_TRUE(segment->Read(0, absl::MakeSpan(first)).ok());
  EXPECT_EQ(first, Bytes(Segment::kPage, 3));
  EXPECT_EQ(segment->Read(kBytes - 1, absl::MakeSpan(first)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(segment->Write(0, first).ok());
  EXPECT_FALSE(segment->GiveBack(0, Segment::kPage).ok());
}

TEST(Segment, WhatIsMappedToBeWrittenIsThereAsAWholeAndIsNotSealedBeforeTheMappingIsGone) {
  constexpr uint64_t kSize = 2 * AlignedMapping::kHugePage + Segment::kPage;
  for (const bool huge_pages : {false, true}) {
    auto segment = Segment::Create("wq").value();
    {
      const AlignedMapping mapping = segment->MapToWrite(kSize, huge_pages).value();
      ASSERT_EQ(mapping.bytes().size(), kSize);
      EXPECT_EQ(segment->MemoryBytes().value(), kSize) << "no page is missing when it is touched";
      const std::vector<std::byte> content = Bytes(kSize, 5);
      std::memcpy(mapping.bytes().data(), content.data(), kSize);
      EXPECT_FALSE(segment->Seal(kSize).ok());
    }
    ASSERT_TRUE(segment->Seal(kSize).ok());
    EXPECT_EQ(segment->MemoryBytes().value(), kSize);
    EXPECT_EQ(Contents(*segment), Bytes(kSize, 5));
  }
}

// The bytes of huge pages that are mapped as such at `address`, as the system tells it.
uint64_t MappedInHugePages(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const std::string begin = absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(address)), "-");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words[0].back() != ':') inside = absl::StartsWith(line, begin);
    if (inside && words[0] == "ShmemPmdMapped:") return std::stoull(words[1]) << 10;
  }
  return 0;
}

TEST(Segment, IsWrittenInHugePagesWhereItShouldAndInSmallOnesElse) {
  constexpr uint64_t kSize = 3 * AlignedMapping::kHugePage + Segment::kPage;
  for (const bool huge_pages : {false, true}) {
    auto segment = Segment::Create("wq").value();
    { const AlignedMapping filled = segment->MapToWrite(kSize, huge_pages).value(); }
    ASSERT_TRUE(segment->Seal(kSize).ok());
    const AlignedMapping mapping =
        AlignedMapping::Map(segment->descriptor(), 0, kSize, PROT_READ, "wq").value();
    EXPECT_EQ(std::vector<std::byte>(mapping.bytes().begin(), mapping.bytes().end()),
              std::vector<std::byte>(kSize));
    const uint64_t huge = MappedInHugePages(mapping.bytes().data());
    if (huge_pages && huge == 0 && !mapping.Join())
      GTEST_SKIP() << "this system joins no pages of shared memory";
    EXPECT_EQ(huge, huge_pages ? kSize - Segment::kPage : 0);
  }
}

// What one attempt does to a descriptor that was handed out, and to the memory behind it.
struct Attempt {
  const char* what;
  std::function<bool(int theirs, std::byte* mapped)> succeeds;
};

const std::vector<Attempt>& Attempts() {
  static const auto& attempts = *new std::vector<Attempt>({
      {"write", [](int f, std::byte*) { return write(f, "x", 1) > 0; }},
      {"write at", [](int f, std::byte*) { return pwrite(f, "x", 1, 0) > 0; }},
      {"write many", [](int f, std::byte*) {
         iovec part = {.iov_base = const_cast<char*>("x"), .iov_len = 1};
         return pwritev(f, &part, 1, 0) > 0;
       }},
      {"shorten", [](int f, std::byte*) { return ftruncate(f, 0) == 0; }},
      {"lengthen", [](int f, std::byte*) { return ftruncate(f, 10 * kBytes) == 0; }},
      {"punch", [](int f, std::byte*) {
         return fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, Segment::kPage) == 0;
       }},
      {"allocate", [](int f, std::byte*) { return fallocate(f, 0, 0, 10 * kBytes) == 0; }},
      {"seal more", [](int f, std::byte*) { return fcntl(f, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0; }},
      {"map to write", [](int f, std::byte*) {
         return mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0) != MAP_FAILED;
       }},
      {"make the mapping writable", [](int, std::byte* mapped) {
         return mprotect(mapped, kBytes, PROT_READ | PROT_WRITE) == 0;
       }},
      {"remove pages of the mapping", [](int, std::byte* mapped) {
         return madvise(mapped, kBytes, MADV_REMOVE) == 0;
       }},
      {"write through the process's memory", [](int, std::byte* mapped) {
         char byte = 'x';
         iovec from = {.iov_base = &byte, .iov_len = 1}, to = {.iov_base = mapped, .iov_len = 1};
         return process_vm_writev(getpid(), &from, 1, &to, 1, 0) > 0;
       }},
      {"write through /proc/self/mem", [](int, std::byte* mapped) {
         const FileDescriptor memory = FileDescriptor::Open("/proc/self/mem", O_RDWR);
         return pwrite(memory.get(), "x", 1, reinterpret_cast<off_t>(mapped)) > 0;
       }},
      {"open again to write", [](int f, std::byte*) {
         fchmod(f, 0777);
         const FileDescriptor again = FileDescriptor::Open(NameInProc(f), O_RDWR);
         return again.is_open() && write(again.get(), "x", 1) > 0;
       }},
      {"open again and map to write", [](int f, std::byte*) {
         fchmod(f, 0777);
         const FileDescriptor again = FileDescriptor::Open(NameInProc(f), O_RDWR);
         return again.is_open() && mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                        again.get(), 0) != MAP_FAILED;
       }},
      {"open again and cut", [](int f, std::byte*) {
         fchmod(f, 0777);
         return FileDescriptor::Open(NameInProc(f), O_RDWR | O_TRUNC).is_open();
       }},
      {"truncate by its name", [](int f, std::byte*) {
         return truncate(NameInProc(f).c_str(), 0) == 0;
       }},
      {"copy another file over it", [](int f, std::byte*) {
         const FileDescriptor self = FileDescriptor::Open("/proc/self/exe", O_RDONLY);
         off_t from = 0, to = 0;
         return sendfile(f, self.get(), &from, 1) > 0 ||
                copy_file_range(self.get(), &from, f, &to, 1, 0) > 0;
       }},
      {"move a pipe into it", [](int f, std::byte*) {
         int ends[2];
         if (pipe(ends) != 0 || write(ends[1], "x", 1) != 1) return true;
         const bool moved = splice(ends[0], nullptr, f, nullptr, 1, 0) > 0;
         close(ends[0]);
         close(ends[1]);
         return moved;
       }},
  });
  return attempts;
}

// /proc/self/mem and a debugger may write to a private copy of a page; to the page itself, nobody.
TEST(Segment, WhoeverGetsItCannotChangeAByteOfIt) {
  const auto segment = SealedSegment();
  for (const Attempt& attempt : Attempts()) {
    SCOPED_TRACE(attempt.what);
    const FileDescriptor theirs = segment->OpenForReading().value();
    void* const mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, theirs.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_FALSE(attempt.succeeds(theirs.get(), static_cast<std::byte*>(mapped)));
    munmap(mapped, kBytes);
    EXPECT_EQ(Contents(*segment), Bytes(kBytes, 1));
    EXPECT_EQ(segment->MemoryBytes().value(), kBytes);
  }
}

// The control: before it is sealed most of these do succeed, or this list would prove nothing.
TEST(Segment, TheSameAttemptsChangeWhatIsNotSealed) {
  int succeeded = 0;
  for (const Attempt& attempt : Attempts()) {
    const FileDescriptor open(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(open.get(), kBytes), 0);
    void* const mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, open.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    succeeded += attempt.succeeds(open.get(), static_cast<std::byte*>(mapped));
    munmap(mapped, kBytes);
  }
  EXPECT_GE(succeeded, 15) << "of " << Attempts().size();
}

// In a process that is not root, whom no mode would keep out.
int StatusOfUnprivileged(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit((geteuid() != 0 || setuid(65534) == 0) && body() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Segment, WhatOneReceiverDoesToItsDescriptorNobodyElseNotices) {
  EXPECT_EQ(StatusOfUnprivileged([] {
              const auto segment = SealedSegment();
              const FileDescriptor theirs = segment->OpenForReading().value();
              fcntl(theirs.get(), F_SETFL, O_APPEND | O_NONBLOCK | O_DIRECT);
              const bool done = lseek(theirs.get(), kBytes, SEEK_SET) == kBytes &&
                                flock(theirs.get(), LOCK_EX) == 0 && fchmod(theirs.get(), 0) == 0;
              const auto next = segment->OpenForReading();
              std::vector<std::byte> seen(kBytes);
              return done && next.ok() && Contents(*segment) == Bytes(kBytes, 1) &&
                     ReadAt(*next, "next", 0, absl::MakeSpan(seen)).value() == kBytes &&
                     seen == Bytes(kBytes, 1);
            }),
            0);
}

TEST(Segment, ReceiversHaveAnOffsetEach) {
  const auto segment = SealedSegment();
  const FileDescriptor one = segment->OpenForReading().value();
  const FileDescriptor other = segment->OpenForReading().value();
  ASSERT_EQ(lseek(one.get(), 100, SEEK_SET), 100);
  EXPECT_EQ(lseek(other.get(), 0, SEEK_CUR), 0);
}

TEST(Segment, AnEarlierProcesssSegmentIsAdoptedAndNothingElse) {
  const auto segment = SealedSegment();
  auto adopted = Segment::Adopt(FileDescriptor(dup(segment->descriptor())), "wq");
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(Contents(**adopted), Bytes(kBytes, 1));
  EXPECT_NE((*adopted)->id(), segment->id());

  const TemporaryFolder folder;
  const std::string file = folder.Write("file", std::string(Segment::kPage, 'x'));
  const auto memory = [](int seals, off_t bytes) {
    FileDescriptor made(memfd_create("made", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(made.get(), bytes), 0);
    EXPECT_EQ(fcntl(made.get(), F_ADD_SEALS, seals), 0);
    return made;
  };
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  int sockets[2], ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  ASSERT_EQ(pipe(ends), 0);
  std::vector<std::pair<const char*, FileDescriptor>> others;
  others.emplace_back("closed", FileDescriptor());
  others.emplace_back("file", FileDescriptor::Open(file, O_RDONLY));
  others.emplace_back("folder", FileDescriptor::Open(folder.path(), O_RDONLY | O_DIRECTORY));
  others.emplace_back("socket", FileDescriptor(sockets[0]));
  others.emplace_back("socket", FileDescriptor(sockets[1]));
  others.emplace_back("pipe", FileDescriptor(ends[0]));
  others.emplace_back("pipe", FileDescriptor(ends[1]));
  others.emplace_back("device", FileDescriptor::Open("/dev/zero", O_RDONLY));
  others.emplace_back("name only", FileDescriptor::Open(NameInProc(segment->descriptor()), O_PATH));
  others.emplace_back("not sealed", memory(0, kBytes));
  others.emplace_back("may shrink", memory(kAll & ~F_SEAL_SHRINK, kBytes));
  others.emplace_back("may be written", memory(kAll & ~F_SEAL_WRITE, kBytes));
  others.emplace_back("empty", memory(kAll, 0));
  others.emplace_back("part of a page", memory(kAll, kBytes + 1));
  const FileDescriptor sealed = memory(kAll, kBytes);
  others.emplace_back("to be written", FileDescriptor::Open(NameInProc(sealed.get()), O_WRONLY));
  for (auto& [what, descriptor] : others) {
    EXPECT_EQ(Segment::Adopt(std::move(descriptor), what).status().code(),
              absl::StatusCode::kInvalidArgument)
        << what;
  }
}

}  // namespace
}  // namespace npubank::service
