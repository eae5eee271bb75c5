// Host memory imported without a copy, one test per fact of a real NPU that can do it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

constexpr size_t kPage = 4096;

// A file of some pages, mapped.
class MappedFile {
 public:
  MappedFile(size_t bytes, int protection, int flags) : bytes_(bytes) {
    fd_ = memfd_create("file", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
    for (size_t at = 0; at < bytes; at += kPage) {
      EXPECT_EQ(pwrite(fd_, "page", 4, static_cast<off_t>(at)), 4);
    }
    data_ = static_cast<uint8_t*>(mmap(nullptr, bytes, protection, flags, fd_, 0));
  }
  ~MappedFile() {
    Unmap();
    close(fd_);
  }
  void Unmap() {
    if (data_ != nullptr) munmap(data_, bytes_);
    data_ = nullptr;
  }
  uint8_t* data() const { return data_; }
  int fd() const { return fd_; }

 private:
  size_t bytes_;
  int fd_ = -1;
  uint8_t* data_ = nullptr;
};

class ImportTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (IsSoftwareNpu()) SetSwitches({{"NPUBANK_NPU_IMPORT", "1"}});
    if (!HasExtension("ZE_extension_external_memmap_sysmem"))
      GTEST_SKIP() << "this driver does not import system memory";
  }
};

TEST_F(ImportTest, IsUnsupportedUnlessItIsSwitchedOn) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_IMPORT", "0"}});
  const MappedFile file(kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  EXPECT_EQ(ImportPages(file.data(), kPage, kReadOnly, &out), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
}

TEST_F(ImportTest, GivesTheSamePointerAsHostMemory) {
  const MappedFile file(4 * kPage, PROT_READ, MAP_SHARED);
  const uint64_t before = Allocated();
  void* out = nullptr;
  ASSERT_EQ(ImportPages(file.data(), 4 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  EXPECT_EQ(out, file.data());
  EXPECT_EQ(Allocated() - before, 4 * kPage) << "the context query counts imports";
  ze_memory_allocation_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  ASSERT_EQ(zeMemGetAllocProperties(context_, out, &properties, nullptr), ZE_RESULT_SUCCESS);
  EXPECT_EQ(properties.type, ZE_MEMORY_TYPE_HOST);
  Free(out);
  EXPECT_EQ(std::memcmp(file.data(), "page", 4), 0) << "freeing only unpins";
}

TEST_F(ImportTest, PointerAndSizeAreWidenedToWholePages) {
  const MappedFile file(3 * kPage, PROT_READ, MAP_SHARED);
  const uint64_t before = Allocated();
  void* out = nullptr;
  ASSERT_EQ(ImportPages(file.data() + kPage + 100, 10, kReadOnly, &out), ZE_RESULT_SUCCESS);
  EXPECT_EQ(out, file.data() + kPage + 100);
  EXPECT_EQ(Allocated() - before, kPage);
  void* again = nullptr;
  EXPECT_EQ(ImportPages(file.data() + 2 * kPage - 1, 1, kReadOnly, &again),
            ZE_RESULT_ERROR_INVALID_ARGUMENT)
      << "the page is imported already";
  EXPECT_EQ(ImportPages(file.data() + kPage - 1, 2, kReadOnly, &again),
            ZE_RESULT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(ImportPages(file.data(), kPage, kReadOnly, &again), ZE_RESULT_SUCCESS);
  Free(again);
  Free(out);
}

TEST_F(ImportTest, PagesOfAnAllocationCannotBeImported) {
  uint8_t* const memory = Host(kPage);
  void* out = nullptr;
  EXPECT_EQ(ImportPages(memory, kPage, 0, &out), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  Free(memory);
}

TEST_F(ImportTest, ReadOnlyMemoryNeedsTheReadOnlyFlag) {
  const MappedFile file(kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  EXPECT_EQ(ImportPages(file.data(), kPage, 0, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(ImportTest, FilesInMemoryAreImportedForReadingAndForWriting) {
  const MappedFile file(2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
  uint8_t* const device = Device(16);
  std::memcpy(device, "hello", 5);
  for (const uint32_t flags : {0u, kReadOnly}) {
    void* out = nullptr;
    ASSERT_EQ(ImportPages(file.data(), 2 * kPage, flags, &out), ZE_RESULT_SUCCESS) << flags;
    const ze_result_t written = Copy(file.data() + kPage, device, 5);
    EXPECT_EQ(written, flags == 0 ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_DEVICE_LOST);
    EXPECT_EQ(std::memcmp(file.data() + kPage, "hello", 5), 0);
    Free(out);
  }
  Free(device);
}

TEST_F(ImportTest, SharedAnonymousMemoryIsImportedForReadingAndForWriting) {
  void* const memory =
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<uint8_t*>(memory);
  uint8_t* const device = Device(16);
  device[0] = 5;
  for (const uint32_t flags : {kReadOnly, 0u}) {
    void* out = nullptr;
    ASSERT_EQ(ImportPages(memory, 2 * kPage, flags, &out), ZE_RESULT_SUCCESS) << flags;
    EXPECT_EQ(Copy(bytes + kPage, device, 1),
              flags == 0 ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_DEVICE_LOST);
    Free(out);
  }
  EXPECT_EQ(bytes[kPage], 5);
  Free(device);
  munmap(memory, 2 * kPage);
}

// A file on a file system that is not memory; its descriptor, or -1 where there is none.
int FileOnDisk(std::string* path) {
  constexpr long kTmpfs = 0x01021994;
  *path = (std::filesystem::read_symlink("/proc/self/exe").parent_path() /
           ("driver_conformance_" + std::to_string(getpid())))
              .string();
  const int fd = open(path->c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  struct statfs system = {};
  if (fd < 0 || fstatfs(fd, &system) != 0 || system.f_type == kTmpfs) return -1;
  return ftruncate(fd, 2 * kPage) == 0 ? fd : -1;
}

TEST_F(ImportTest, WritableSharedMappingsOfFilesOnDiskArePinnedForReadingOnly) {
  std::string path;
  const int fd = FileOnDisk(&path);
  if (fd < 0) GTEST_SKIP() << path << " cannot be made, or is in memory";
  auto* const data =
      static_cast<uint8_t*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(data, MAP_FAILED);
  void* out = nullptr;
  EXPECT_EQ(ImportPages(data, 2 * kPage, 0, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  ASSERT_EQ(ImportPages(data, 2 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  ASSERT_EQ(pwrite(fd, "here", 4, kPage), 4);
  // A pin outlives the mapping, the name and the descriptor.
  uint8_t* const device = Device(16);
  ASSERT_EQ(munmap(data, 2 * kPage), 0);
  ASSERT_EQ(unlink(path.c_str()), 0);
  close(fd);
  EXPECT_EQ(Copy(device, data + kPage, 4), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::memcmp(device, "here", 4), 0);
  Free(device);
  Free(out);
}

TEST_F(ImportTest, APinOfSeveralMappingsOutlivesThemAll) {
  MappedFile file(3 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
  uint8_t* const data = file.data();
  ASSERT_EQ(pwrite(file.fd(), "last", 4, 2 * kPage), 4);
  ASSERT_EQ(mprotect(data + kPage, kPage, PROT_READ), 0) << "three mappings from now on";
  void* out = nullptr;
  EXPECT_EQ(ImportPages(data, 3 * kPage, 0, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)
      << "one of them is read-only";
  ASSERT_EQ(ImportPages(data, 3 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  uint8_t* const device = Device(16);
  file.Unmap();
  EXPECT_EQ(Copy(device, data + 2 * kPage, 4), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::memcmp(device, "last", 4), 0);
  Free(device);
  Free(out);
}

TEST_F(ImportTest, AFileThatShrinksFailsTheJobsThatReadIt) {
  NPUBANK_NEEDS_SOFTWARE_NPU();  // a real pin keeps the pages
  MappedFile file(2 * kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  ASSERT_EQ(ImportPages(file.data(), 2 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  uint8_t* const device = Device(2 * kPage);
  ASSERT_EQ(Copy(device, out, 2 * kPage), ZE_RESULT_SUCCESS);
  ASSERT_EQ(ftruncate(file.fd(), kPage), 0);
  EXPECT_EQ(Copy(device, file.data() + kPage, 4), ZE_RESULT_ERROR_DEVICE_LOST);
  ASSERT_EQ(ftruncate(file.fd(), 2 * kPage), 0);
  EXPECT_EQ(Copy(device, file.data() + kPage, 4), ZE_RESULT_ERROR_DEVICE_LOST)
      << "what was lost does not come back";
  Free(out);
  ASSERT_EQ(ImportPages(file.data(), 2 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  EXPECT_EQ(Copy(device, file.data() + kPage, 4), ZE_RESULT_SUCCESS);
  Free(device);
  Free(out);
}

TEST_F(ImportTest, PrivateMemoryThatIsUnmappedEarlyFailsTheJobsThatNeedIt) {
  NPUBANK_NEEDS_SOFTWARE_NPU();  // a real pin keeps the pages
  void* const memory =
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  void* out = nullptr;
  ASSERT_EQ(ImportPages(memory, kPage, 0, &out), ZE_RESULT_SUCCESS);
  uint8_t* const device = Device(16);
  ASSERT_EQ(munmap(memory, kPage), 0);
  EXPECT_EQ(Copy(device, memory, 4), ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(Copy(memory, device, 4), ZE_RESULT_ERROR_DEVICE_LOST);
  Free(device);
  Free(out);
}

TEST_F(ImportTest, TheEndOfTheAddressSpaceIsRefused) {
  void* out = nullptr;
  for (const uint64_t address : {UINT64_MAX, UINT64_MAX - kPage + 1, UINT64_MAX - kPage,
                                 UINT64_MAX - 2 * kPage, uint64_t{1} << 47, uint64_t{1} << 63}) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{kPage}, UINT64_MAX, UINT64_MAX - kPage}) {
      EXPECT_EQ(ImportPages(reinterpret_cast<void*>(address), bytes, kReadOnly, &out),
                ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)
          << address << " " << bytes;
    }
  }
}

TEST_F(ImportTest, AnyPointerInsideFreesAnImport) {
  const MappedFile file(2 * kPage, PROT_READ, MAP_SHARED);
  for (const size_t offset : {size_t{0}, size_t{1}, kPage, 2 * kPage - 1}) {
    void* out = nullptr;
    ASSERT_EQ(ImportPages(file.data() + 100, kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
    Free(file.data() + offset);
    EXPECT_EQ(zeMemFree(context_, out), ZE_RESULT_ERROR_INVALID_ARGUMENT) << "it is gone";
  }
}

TEST_F(ImportTest, AnImportNeverCopiesSharedPages) {
  constexpr size_t kBytes = size_t{32} << 20;
  const MappedFile file(kBytes, PROT_READ | PROT_WRITE, MAP_SHARED);
  std::memset(file.data(), 1, kBytes);
  for (const uint32_t flags : {0u, kReadOnly})
    EXPECT_TRUE(ImportsWithoutACopy(file.fd(), kBytes, PROT_READ | PROT_WRITE, flags)) << flags;
}

// The fastest of many: the others waited for somebody else.
template <typename Act>
double FastestMicroseconds(Act act) {
  double fastest = 1e9;
  for (int i = 0; i < 1000; ++i) {
    const auto start = std::chrono::steady_clock::now();
    act();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    fastest = std::min(fastest, took.count());
  }
  return fastest;
}

// Beside what the kernel takes to map a page and unmap it, about a microsecond: so neither a slow machine nor a
// checker makes it fail, and reading the process's maps more than once does.
TEST_F(ImportTest, AnImportTakesNoMoreThanTenMappingsOfAPage) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  const MappedFile file(kPage, PROT_READ, MAP_SHARED);
  const double import = FastestMicroseconds([&] {
    void* out = nullptr;
    ASSERT_EQ(ImportPages(file.data(), kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
    Free(out);
  });
  const double mapping = FastestMicroseconds([] {
    void* const page = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    munmap(page, kPage);
  });
  std::printf("an import and its end take %.1f us, %.1f mappings of a page\n", import, import / mapping);
  EXPECT_LT(import, 10 * mapping);
}

TEST_F(ImportTest, MemoryThatIsNotThereIsOutOfDeviceMemory) {
  MappedFile file(2 * kPage, PROT_READ, MAP_SHARED);
  uint8_t* const data = file.data();
  ASSERT_EQ(munmap(data + kPage, kPage), 0);
  void* out = nullptr;
  EXPECT_EQ(ImportPages(data, 2 * kPage, kReadOnly, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(ImportPages(data, SIZE_MAX - kPage, kReadOnly, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(ImportTest, APrivateFileMappingIsCopiedIntoAnonymousMemory) {
  const MappedFile file(2 * kPage, PROT_READ, MAP_PRIVATE);
  void* out = nullptr;
  ASSERT_EQ(ImportPages(file.data(), 2 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  ASSERT_EQ(pwrite(file.fd(), "PAGE", 4, kPage), 4);
  EXPECT_EQ(std::memcmp(file.data() + kPage, "page", 4), 0) << "no longer the file's page";
  Free(out);
}

TEST_F(ImportTest, InteriorPointersAreCopyEndpointsAndReadOnlyOnesAreNotWritten) {
  const MappedFile file(2 * kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  ASSERT_EQ(ImportPages(file.data(), 2 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  uint8_t* const device = Device(16);
  EXPECT_EQ(Copy(device, file.data() + kPage, 4), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::memcmp(device, "page", 4), 0);
  EXPECT_EQ(Copy(file.data() + kPage, device, 4), ZE_RESULT_ERROR_DEVICE_LOST);
  Free(device);
  Free(out);
}

TEST_F(ImportTest, PinnedSharedPagesOutliveTheHostsMapping) {
  MappedFile file(kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  ASSERT_EQ(ImportPages(file.data(), kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  uint8_t* const device = Device(16);  // before: it must not get the addresses of the file
  file.Unmap();
  EXPECT_EQ(Copy(device, out, 4), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::memcmp(device, "page", 4), 0);
  Free(device);
  Free(out);
}

TEST_F(ImportTest, AnonymousMemoryIsImportedForWriting) {
  void* const memory = std::aligned_alloc(kPage, 2 * kPage);
  ASSERT_NE(memory, nullptr);
  std::memset(memory, 0, 2 * kPage);
  void* out = nullptr;
  ASSERT_EQ(ImportPages(memory, 2 * kPage, 0, &out), ZE_RESULT_SUCCESS);
  uint8_t* const device = Device(16);
  std::memcpy(device, "hello", 5);
  EXPECT_EQ(Copy(static_cast<uint8_t*>(memory) + kPage, device, 5), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::memcmp(static_cast<uint8_t*>(memory) + kPage, "hello", 5), 0);
  Free(device);
  Free(out);
  std::free(memory);
}

}  // namespace
}  // namespace npubank
