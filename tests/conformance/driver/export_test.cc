// Buffers exported and imported as dma-bufs, one test per fact of a real NPU. Between two processes:
// processes_test.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

constexpr auto kDmaBuf = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
constexpr auto kOpaque = ZE_EXTERNAL_MEMORY_TYPE_FLAG_OPAQUE_FD;

class ExportTest : public DriverTest {
 protected:
  void TearDown() override {
    for (const int fd : descriptors_) close(fd);
    DriverTest::TearDown();
  }

  ze_result_t TryExportable(size_t bytes, uint32_t flags, void** out) {
    const ze_external_memory_export_desc_t desc = {ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
                                                   nullptr, flags};
    return TryAllocate(ZE_MEMORY_TYPE_DEVICE, bytes, out, 0, 0, &desc);
  }
  uint8_t* Exportable(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(TryExportable(bytes, kDmaBuf, &memory), ZE_RESULT_SUCCESS);
    return static_cast<uint8_t*>(memory);
  }
  ze_result_t TryExport(void* memory, uint32_t flags, int* fd) {
    ze_external_memory_export_fd_t exported = {ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD, nullptr,
                                               flags, -1};
    ze_memory_allocation_properties_t properties = {};
    properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
    properties.pNext = &exported;
    const ze_result_t result = zeMemGetAllocProperties(context_, memory, &properties, nullptr);
    *fd = exported.fd;
    return result;
  }
  // Closed by TearDown.
  int Export(void* memory) {
    int fd = -1;
    EXPECT_EQ(TryExport(memory, kDmaBuf, &fd), ZE_RESULT_SUCCESS);
    EXPECT_GE(fd, 0);
    descriptors_.push_back(fd);
    return fd;
  }
  ze_result_t TryImport(int fd, size_t bytes, void** out, uint32_t flags = kDmaBuf) {
    const ze_external_memory_import_fd_t import = {ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
                                                   nullptr, flags, fd};
    return TryAllocate(ZE_MEMORY_TYPE_DEVICE, bytes, out, 0, 0, &import);
  }
  uint8_t* Import(int fd, size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(TryImport(fd, bytes, &memory), ZE_RESULT_SUCCESS);
    return static_cast<uint8_t*>(memory);
  }

  std::vector<int> descriptors_;
};

TEST_F(ExportTest, EachExportIsADescriptorOfItsOwn) {
  uint8_t* const memory = Exportable(8192);
  int first = -1;
  int second = -1;
  ASSERT_EQ(TryExport(memory, kDmaBuf, &first), ZE_RESULT_SUCCESS);
  ASSERT_EQ(TryExport(memory, kDmaBuf, &second), ZE_RESULT_SUCCESS);
  EXPECT_NE(first, second);
  EXPECT_EQ(close(first), 0);
  EXPECT_EQ(close(second), 0) << "not the same one again";
  uint8_t* const imported = Import(Export(memory), 8192);
  EXPECT_NE(imported, nullptr) << "the driver's own is still open";
  Free(imported);
  Free(memory);
}

TEST_F(ExportTest, ADescriptorThatIsClosedIsNobodyElsesToClose) {
  uint8_t* const memory = Exportable(4096);
  int fd = -1;
  ASSERT_EQ(TryExport(memory, kDmaBuf, &fd), ZE_RESULT_SUCCESS);
  ASSERT_EQ(close(fd), 0);
  // Gets the number that has become free.
  const int innocent = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(innocent, fd);
  Free(memory);
  EXPECT_NE(fcntl(innocent, F_GETFD), -1) << "freeing the buffer closed somebody else's file";
  close(innocent);
}

TEST_F(ExportTest, AnImportOfOnesOwnIsASecondPointerAndBothAreFreed) {
  uint8_t* const memory = Exportable(8192);
  uint8_t* const again = Import(Export(memory), 8192);
  ASSERT_NE(again, nullptr);
  EXPECT_NE(again, memory);
  memory[5000] = 42;
  EXPECT_EQ(again[5000], 42);
  again[1] = 43;
  EXPECT_EQ(memory[1], 43) << "an export is read-write";
  uint8_t* const device = Device(16);
  EXPECT_EQ(Copy(device, again + 5000, 1), ZE_RESULT_SUCCESS);
  EXPECT_EQ(device[0], 42);
  Free(device);
  Free(memory);
  EXPECT_EQ(again[5000], 42) << "each lives for itself";
  Free(again);
}

TEST_F(ExportTest, AnImportMapsTheWholeBufferWhateverTheImporterSays) {
  uint8_t* const memory = Exportable(8192);
  for (size_t bytes : {size_t{4096}, size_t{8192}, size_t{1} << 20, size_t{1}}) {
    uint8_t* const imported = Import(Export(memory), bytes);
    ASSERT_NE(imported, nullptr);
    size_t size = 0;
    ASSERT_EQ(zeMemGetAddressRange(context_, imported, nullptr, &size), ZE_RESULT_SUCCESS);
    EXPECT_EQ(size, 8192u) << "asked for " << bytes;
    imported[8191] = 77;
    EXPECT_EQ(memory[8191], 77);
    memory[8191] = 0;
    Free(imported);
  }
  Free(memory);
}

TEST_F(ExportTest, ABufferOutlivesWhoAllocatedIt) {
  uint8_t* const memory = Exportable(4096);
  memory[7] = 7;
  const int fd = Export(memory);
  Free(memory);
  uint8_t* const imported = Import(fd, 4096);
  ASSERT_NE(imported, nullptr);
  EXPECT_EQ(imported[7], 7);
  Free(imported);
}

TEST_F(ExportTest, OnlyMemoryAllocatedForItIsExported) {
  uint8_t* const memory = Device(4096);
  int fd = -1;
  EXPECT_NE(TryExport(memory, kDmaBuf, &fd), ZE_RESULT_SUCCESS);
  Free(memory);
}

TEST_F(ExportTest, AnImportIsNotExported) {
  uint8_t* const memory = Exportable(4096);
  uint8_t* const imported = Import(Export(memory), 4096);
  int fd = -1;
  EXPECT_NE(TryExport(imported, kDmaBuf, &fd), ZE_RESULT_SUCCESS);
  Free(imported);
  Free(memory);
}

TEST_F(ExportTest, AnOpaqueDescriptorIsAnInvalidEnumeration) {
  void* memory = nullptr;
  EXPECT_EQ(TryExportable(4096, kOpaque, &memory), ZE_RESULT_ERROR_INVALID_ENUMERATION);
  uint8_t* const exportable = Exportable(4096);
  int fd = -1;
  EXPECT_EQ(TryExport(exportable, kOpaque, &fd), ZE_RESULT_ERROR_INVALID_ENUMERATION);
  Free(exportable);
}

TEST_F(ExportTest, APlainMemfdIsNoDmaBuf) {
  // Neither is one that goes by the name of the software NPU's buffers.
  for (const char* name : {"from_elsewhere", "npubank_dma_buf"}) {
    const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_GE(fd, 0);
    descriptors_.push_back(fd);
    ASSERT_EQ(ftruncate(fd, 8192), 0);
    void* memory = nullptr;
    EXPECT_EQ(TryImport(fd, 8192, &memory), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY) << name;
  }
}

TEST_F(ExportTest, WhatIsNoDescriptorIsNoDmaBuf) {
  void* memory = nullptr;
  for (const int fd : {-1, INT32_MAX, 1'000'000})
    EXPECT_EQ(TryImport(fd, 4096, &memory), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY) << fd;
}

}  // namespace
}  // namespace npubank
