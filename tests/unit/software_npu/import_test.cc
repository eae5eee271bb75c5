// Host memory imported without a copy, one test per fact of a real NPU that can do it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "npubank/tests/unit/software_npu/driver_fixture.h"

namespace npubank {
namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kReadOnly = ZE_HOST_MEM_ALLOC_FLAG_BIAS_WRITE_COMBINED;

// The structure of ZE_extension_external_memmap_sysmem.
struct SystemMemory {
  uint32_t stype = 0x00020037;
  const void* next = nullptr;
  void* memory = nullptr;
  uint64_t size = 0;
};

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
    SetSwitches({{"NPUBANK_NPU_IMPORT", "1"}});
  }

  ze_result_t Import(void* memory, size_t bytes, uint32_t flags, void** out) {
    const SystemMemory desc = {0x00020037, nullptr, memory, bytes};
    return TryAllocate(ZE_MEMORY_TYPE_HOST, 1, out, 0, flags, &desc);
  }
};

TEST_F(ImportTest, IsUnsupportedUnlessItIsSwitchedOn) {
  SetSwitches({{"NPUBANK_NPU_IMPORT", "0"}});
  const MappedFile file(kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  EXPECT_EQ(Import(file.data(), kPage, kReadOnly, &out), ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
}

TEST_F(ImportTest, GivesTheSamePointerAsHostMemoryAndCopiesNothing) {
  const MappedFile file(4 * kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  ASSERT_EQ(Import(file.data(), 4 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  EXPECT_EQ(out, file.data());
  EXPECT_EQ(Statistics().live_imports, 1u);
  EXPECT_EQ(Statistics().imported_bytes, 4 * kPage);
  EXPECT_EQ(Statistics().live_bytes, 0u);
  ze_memory_allocation_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  ASSERT_EQ(zeMemGetAllocProperties(context_, out, &properties, nullptr), ZE_RESULT_SUCCESS);
  EXPECT_EQ(properties.type, ZE_MEMORY_TYPE_HOST);
  Free(out);
  EXPECT_EQ(std::memcmp(file.data(), "page", 4), 0) << "freeing only unpins";
}

TEST_F(ImportTest, PointerAndSizeAreWidenedToWholePages) {
  const MappedFile file(3 * kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  ASSERT_EQ(Import(file.data() + kPage + 100, 10, kReadOnly, &out), ZE_RESULT_SUCCESS);
  EXPECT_EQ(out, file.data() + kPage + 100);
  EXPECT_EQ(Statistics().imported_bytes, kPage);
  void* again = nullptr;
  EXPECT_EQ(Import(file.data() + 2 * kPage - 1, 1, kReadOnly, &again),
            ZE_RESULT_ERROR_INVALID_ARGUMENT)
      << "the page is imported already";
  EXPECT_EQ(Import(file.data() + kPage - 1, 2, kReadOnly, &again),
            ZE_RESULT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(Import(file.data(), kPage, kReadOnly, &again), ZE_RESULT_SUCCESS);
  Free(again);
  Free(out);
}

TEST_F(ImportTest, PagesOfAnAllocationCannotBeImported) {
  uint8_t* const memory = Host(kPage);
  void* out = nullptr;
  EXPECT_EQ(Import(memory, kPage, 0, &out), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  Free(memory);
}

TEST_F(ImportTest, ReadOnlyMemoryNeedsTheReadOnlyFlag) {
  const MappedFile file(kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  EXPECT_EQ(Import(file.data(), kPage, 0, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(ImportTest, WritableSharedMappingsOfFilesCannotBePinned) {
  const MappedFile file(kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
  void* out = nullptr;
  EXPECT_EQ(Import(file.data(), kPage, 0, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(Import(file.data(), kPage, kReadOnly, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(ImportTest, MemoryThatIsNotThereIsOutOfDeviceMemory) {
  MappedFile file(2 * kPage, PROT_READ, MAP_SHARED);
  uint8_t* const data = file.data();
  ASSERT_EQ(munmap(data + kPage, kPage), 0);
  void* out = nullptr;
  EXPECT_EQ(Import(data, 2 * kPage, kReadOnly, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(Import(data, SIZE_MAX - kPage, kReadOnly, &out), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(ImportTest, APrivateFileMappingIsCopiedIntoAnonymousMemory) {
  const MappedFile file(2 * kPage, PROT_READ, MAP_PRIVATE);
  void* out = nullptr;
  ASSERT_EQ(Import(file.data(), 2 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
  ASSERT_EQ(pwrite(file.fd(), "PAGE", 4, kPage), 4);
  EXPECT_EQ(std::memcmp(file.data() + kPage, "page", 4), 0) << "no longer the file's page";
  Free(out);
}

TEST_F(ImportTest, InteriorPointersAreCopyEndpointsAndReadOnlyOnesAreNotWritten) {
  const MappedFile file(2 * kPage, PROT_READ, MAP_SHARED);
  void* out = nullptr;
  ASSERT_EQ(Import(file.data(), 2 * kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
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
  ASSERT_EQ(Import(file.data(), kPage, kReadOnly, &out), ZE_RESULT_SUCCESS);
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
  ASSERT_EQ(Import(memory, 2 * kPage, 0, &out), ZE_RESULT_SUCCESS);
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
