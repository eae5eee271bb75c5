// Memory, one test per fact of a real NPU.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

class MemoryTest : public DriverTest {};

constexpr ze_memory_type_t kTypes[] = {ZE_MEMORY_TYPE_HOST, ZE_MEMORY_TYPE_DEVICE,
                                       ZE_MEMORY_TYPE_SHARED};

TEST_F(MemoryTest, EverySortSucceedsFromOneByteAndCanBeTouchedByTheHost) {
  for (ze_memory_type_t type : kTypes) {
    for (size_t bytes : {size_t{1}, size_t{4096}, size_t{100'000}}) {
      uint8_t* const memory = Allocate(type, bytes);
      ASSERT_NE(memory, nullptr);
      std::memset(memory, 0xab, bytes);
      EXPECT_EQ(memory[bytes - 1], 0xab);
      Free(memory);
    }
  }
}

TEST_F(MemoryTest, SizesAreRoundedUpToFourKibibytes) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  uint8_t* const memory = Device(4097);
  EXPECT_EQ(Statistics().live_bytes, 8192u);
  Free(memory);
}

TEST_F(MemoryTest, AnyPowerOfTwoAlignmentSucceedsAndFourKibibytesIsWhatOneGets) {
  for (ze_memory_type_t type : kTypes) {
    for (size_t alignment : {size_t{0}, size_t{1}, size_t{64}, size_t{4096}, size_t{2} << 20}) {
      void* memory = nullptr;
      ASSERT_EQ(TryAllocate(type, 100, &memory, alignment), ZE_RESULT_SUCCESS) << alignment;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
      Free(memory);
    }
  }
}

TEST_F(MemoryTest, OtherAlignmentsAreUnsupported) {
  for (ze_memory_type_t type : kTypes) {
    void* memory = nullptr;
    EXPECT_EQ(TryAllocate(type, 100, &memory, 3), ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
    EXPECT_EQ(TryAllocate(type, 100, &memory, 4097), ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
  }
}

TEST_F(MemoryTest, SizeZeroIsUnsupported) {
  for (ze_memory_type_t type : kTypes) {
    void* memory = nullptr;
    EXPECT_EQ(TryAllocate(type, 0, &memory), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
  }
}

TEST_F(MemoryTest, UncachedMemoryAlwaysFails) {
  void* memory = nullptr;
  EXPECT_EQ(
      TryAllocate(ZE_MEMORY_TYPE_DEVICE, 1, &memory, 0, ZE_DEVICE_MEM_ALLOC_FLAG_BIAS_UNCACHED),
      ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(TryAllocate(ZE_MEMORY_TYPE_HOST, 1, &memory, 0, ZE_HOST_MEM_ALLOC_FLAG_BIAS_UNCACHED),
            ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(MemoryTest, ARefusalIsOutOfDeviceMemoryAndFreeingOneBufferHelps) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_CAPACITY", "16K"}});
  uint8_t* const first = Host(8192);
  uint8_t* const second = Device(8192);
  for (ze_memory_type_t type : kTypes) {
    void* memory = nullptr;
    EXPECT_EQ(TryAllocate(type, 1, &memory), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT_EQ(TryAllocate(type, SIZE_MAX, &memory), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  }
  Free(first);
  uint8_t* const third = Device(4096);
  EXPECT_NE(third, nullptr);
  Free(second);
  Free(third);
}

TEST_F(MemoryTest, AllMemoryOfAContextSharesOneAddressRange) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_ADDRESS_RANGE", "8K"}});
  uint8_t* const memory = Host(8192);
  void* more = nullptr;
  EXPECT_EQ(TryAllocate(ZE_MEMORY_TYPE_DEVICE, 1, &more), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  Free(memory);
}

TEST_F(MemoryTest, PagesAreCommittedWhenTheyAreTouched) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_CAPACITY", "1000G"}});
  uint8_t* const memory = Device(size_t{100} << 30);
  ASSERT_NE(memory, nullptr);
  memory[size_t{99} << 30] = 1;
  Free(memory);
}

TEST_F(MemoryTest, PropertiesNeverSayTheDevice) {
  uint8_t* const memory = Device(100);
  ze_memory_allocation_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  ze_device_handle_t device = nullptr;
  ASSERT_EQ(zeMemGetAllocProperties(context_, memory + 50, &properties, &device),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(properties.type, ZE_MEMORY_TYPE_DEVICE);
  EXPECT_EQ(properties.pageSize, 4096u);
  EXPECT_EQ(device, nullptr);
  Free(memory);
}

TEST_F(MemoryTest, AnUnknownPointerIsNotAvailable) {
  int local = 0;
  ze_memory_allocation_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  EXPECT_EQ(zeMemGetAllocProperties(context_, &local, &properties, nullptr),
            ZE_RESULT_ERROR_NOT_AVAILABLE);
}

TEST_F(MemoryTest, TheAddressRangeIsTheDevicesOwn) {
  uint8_t* const memory = Device(5000);
  void* base = nullptr;
  size_t size = 0;
  ASSERT_EQ(zeMemGetAddressRange(context_, memory, &base, &size), ZE_RESULT_SUCCESS);
  EXPECT_NE(base, memory);
  EXPECT_EQ(size, 5000u);
  Free(memory);
}

TEST_F(MemoryTest, ACommandListKeepsFreedMemoryUntilItIsReset) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  uint8_t* const memory = Device(4096);
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListAppendMemoryCopy(list, memory, memory + 2048, 2048, nullptr, 0, nullptr),
            ZE_RESULT_SUCCESS);
  Free(memory);
  EXPECT_EQ(Statistics().live_bytes, 4096u);
  ASSERT_EQ(zeCommandListReset(list), ZE_RESULT_SUCCESS);
  EXPECT_EQ(Statistics().live_bytes, 0u);
}

TEST_F(MemoryTest, ACommandListThatIsDestroyedKeepsNothing) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  uint8_t* const memory = Device(4096);
  const ze_command_list_desc_t desc = {ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
  ze_command_list_handle_t list = nullptr;
  ASSERT_EQ(zeCommandListCreate(context_, device_, &desc, &list), ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeCommandListAppendMemoryCopy(list, memory, memory + 2048, 2048, nullptr, 0, nullptr),
            ZE_RESULT_SUCCESS);
  Free(memory);
  EXPECT_EQ(Statistics().live_bytes, 4096u);
  ASSERT_EQ(zeCommandListDestroy(list), ZE_RESULT_SUCCESS);
  EXPECT_EQ(Statistics().live_bytes, 0u);
}

TEST_F(MemoryTest, TheContextQueryIsTheTruthAboutWhatIsAllocated) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_CAPACITY", "1M"}});
  uint8_t* const memory = Device(5000);
  level_zero::GraphMemoryQuery query;
  ASSERT_EQ(graphs_->pfnQueryContextMemory(context_, level_zero::kMemoryTypeDdr, &query),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(query.allocated, 5000u);
  EXPECT_EQ(query.total, uint64_t{1} << 20);
  Free(memory);
}

TEST_F(MemoryTest, ThePeakIsRememberedUntilItIsReset) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  Free(Device(1 << 20));
  EXPECT_GE(Statistics().peak_bytes, uint64_t{1} << 20);
  Software().pfnResetPeak();
  EXPECT_EQ(Statistics().peak_bytes, 0u);
}

TEST_F(MemoryTest, ThePageSizeIsASwitch) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_PAGE_SIZE", "64K"}});
  uint8_t* const memory = Device(1);
  EXPECT_EQ(Statistics().live_bytes, 65536u);
  Free(memory);
}

TEST_F(MemoryTest, WhatWasAskedForIsWhatCounts) {
  const uint64_t before = Allocated();
  uint8_t* const memory = Device(100);
  EXPECT_EQ(Allocated() - before, 100u);
  void* base = nullptr;
  size_t size = 0;
  ASSERT_EQ(zeMemGetAddressRange(context_, memory + 99, &base, &size), ZE_RESULT_SUCCESS);
  EXPECT_EQ(size, 100u);
  Free(memory);
  EXPECT_EQ(Allocated(), before);
}

TEST_F(MemoryTest, APointerPastTheSizeIsUnknownThoughItsPageGoesOn) {
  uint8_t* const memory = Device(100);
  ze_memory_allocation_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  EXPECT_EQ(zeMemGetAllocProperties(context_, memory + 100, &properties, nullptr),
            ZE_RESULT_ERROR_NOT_AVAILABLE);
  EXPECT_NE(zeMemGetAddressRange(context_, memory + 100, nullptr, nullptr), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandListAppendMemoryCopy(NewList(), memory + 100, memory, 1, nullptr, 0, nullptr),
            ZE_RESULT_ERROR_UNINITIALIZED);
  EXPECT_EQ(Copy(memory, memory + 50, 51), ZE_RESULT_ERROR_DEVICE_LOST);
  Free(memory);
}

TEST_F(MemoryTest, TheQueryCountsCommandBuffersAndEventPools) {
  uint8_t* const memory = Device(128);
  const uint64_t before = Allocated();
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListAppendMemoryCopy(list, memory, memory + 64, 64, nullptr, 0, nullptr),
            ZE_RESULT_SUCCESS);
  ASSERT_EQ(Execute(list), ZE_RESULT_SUCCESS);
  const uint64_t with_list = Allocated();
  EXPECT_GT(with_list, before);
  NewEvents(8);
  EXPECT_GT(Allocated(), with_list);
  Free(memory);
}

TEST_F(MemoryTest, TheQueryDropsAFreedBufferAtOnceEvenWhileAListRefersToIt) {
  uint8_t* const memory = Device(1 << 20);
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListAppendMemoryCopy(list, memory, memory + 64, 64, nullptr, 0, nullptr),
            ZE_RESULT_SUCCESS);
  const uint64_t before = Allocated();
  Free(memory);
  EXPECT_EQ(before - Allocated(), uint64_t{1} << 20);
}

using HiddenMemoryDeathTest = MemoryTest;

TEST_F(HiddenMemoryDeathTest, AStrayHostWriteToHiddenDeviceMemoryFaults) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_HOST_ACCESS", "0"}});
  uint8_t* const memory = Device(4096);
  EXPECT_DEATH(*static_cast<volatile uint8_t*>(memory) = 1, "");
  Free(memory);
}

TEST_F(MemoryTest, HiddenDeviceMemoryIsReachedByCopies) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  SetSwitches({{"NPUBANK_NPU_HOST_ACCESS", "0"}});
  uint8_t* const hidden = Device(8192);
  uint8_t* const staging = Host(8192);
  std::memset(staging, 0x5a, 8192);
  ASSERT_EQ(Copy(hidden, staging, 8192), ZE_RESULT_SUCCESS);
  std::memset(staging, 0, 8192);
  ASSERT_EQ(Copy(staging + 1, hidden + 1, 4096), ZE_RESULT_SUCCESS);
  EXPECT_EQ(staging[0], 0);
  EXPECT_EQ(staging[1], 0x5a);
  EXPECT_EQ(staging[4096], 0x5a);
  EXPECT_EQ(staging[4097], 0);
  EXPECT_EQ(Statistics().live_bytes, 16384u);
  Free(hidden);
  Free(staging);
}

}  // namespace
}  // namespace npubank
