// Virtual memory, where it is switched on.
#include <gtest/gtest.h>

#include <cstring>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

constexpr size_t kTile = 65536;
// A hint, which the driver ignores: the loader's validation layer refuses to reserve without one.
const void* const kAnywhere = reinterpret_cast<const void*>(kTile);

class VirtualMemoryTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    SetSwitches({{"NPUBANK_NPU_VIRTUAL_MEMORY", "1"}});
  }

  uint8_t* Reserve(size_t tiles) {
    void* address = nullptr;
    EXPECT_EQ(zeVirtualMemReserve(context_, kAnywhere, tiles * kTile, &address), ZE_RESULT_SUCCESS);
    return static_cast<uint8_t*>(address);
  }
  ze_result_t TryTile(size_t bytes, ze_physical_mem_handle_t* out) {
    ze_physical_mem_desc_t desc = {ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC, nullptr, 0, bytes};
    return zePhysicalMemCreate(context_, device_, &desc, out);
  }
  ze_physical_mem_handle_t Tiles(size_t tiles) {
    ze_physical_mem_handle_t memory = nullptr;
    EXPECT_EQ(TryTile(tiles * kTile, &memory), ZE_RESULT_SUCCESS);
    return memory;
  }
  ze_result_t Map(uint8_t* address, size_t tiles, ze_physical_mem_handle_t memory,
                  size_t first_tile = 0,
                  ze_memory_access_attribute_t access = ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE) {
    return zeVirtualMemMap(context_, address, tiles * kTile, memory, first_tile * kTile, access);
  }
  ze_result_t Unmap(uint8_t* address, size_t tiles) {
    return zeVirtualMemUnmap(context_, address, tiles * kTile);
  }
  void Destroy(ze_physical_mem_handle_t memory) {
    EXPECT_EQ(zePhysicalMemDestroy(context_, memory), ZE_RESULT_SUCCESS);
  }
  void FreeAddresses(uint8_t* address, size_t tiles) {
    EXPECT_EQ(zeVirtualMemFree(context_, address, tiles * kTile), ZE_RESULT_SUCCESS);
  }
};

TEST_F(VirtualMemoryTest, ThePageSizeIsTheTileSize) {
  size_t page = 0;
  ASSERT_EQ(zeVirtualMemQueryPageSize(context_, device_, 1, &page), ZE_RESULT_SUCCESS);
  EXPECT_EQ(page, kTile);
  SetSwitches({{"NPUBANK_NPU_TILE_SIZE", "2M"}});
  ASSERT_EQ(zeVirtualMemQueryPageSize(context_, device_, 1, &page), ZE_RESULT_SUCCESS);
  EXPECT_EQ(page, size_t{2} << 20);
}

TEST_F(VirtualMemoryTest, ReservationsTakeAddressesAndPhysicalMemoryTakesCapacity) {
  SetSwitches({{"NPUBANK_NPU_CAPACITY", "128K"}, {"NPUBANK_NPU_ADDRESS_RANGE", "256K"}});
  uint8_t* const addresses = Reserve(4);
  EXPECT_EQ(Statistics().live_bytes, 0u);
  EXPECT_EQ(Statistics().live_reservations, 1u);
  void* more = nullptr;
  EXPECT_EQ(zeVirtualMemReserve(context_, kAnywhere, kTile, &more),
            ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  const ze_physical_mem_handle_t memory = Tiles(2);
  EXPECT_EQ(Statistics().live_bytes, 2 * kTile);
  EXPECT_EQ(Statistics().live_physical_memories, 1u);
  ze_physical_mem_handle_t another = nullptr;
  EXPECT_EQ(TryTile(kTile, &another), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  Destroy(memory);
  FreeAddresses(addresses, 4);
}

TEST_F(VirtualMemoryTest, TilesFromAnywhereAppearAsOneRange) {
  uint8_t* const addresses = Reserve(3);
  const ze_physical_mem_handle_t one = Tiles(1);
  const ze_physical_mem_handle_t two = Tiles(2);
  ASSERT_EQ(Map(addresses, 1, two, 1), ZE_RESULT_SUCCESS);
  ASSERT_EQ(Map(addresses + kTile, 1, one), ZE_RESULT_SUCCESS);
  ASSERT_EQ(Map(addresses + 2 * kTile, 1, two, 0), ZE_RESULT_SUCCESS);
  std::memset(addresses, 0x77, 3 * kTile);
  uint8_t* const copy = Host(3 * kTile);
  EXPECT_EQ(Copy(copy, addresses, 3 * kTile), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::memcmp(copy, addresses, 3 * kTile), 0);
  Free(copy);
  ASSERT_EQ(Unmap(addresses, 3), ZE_RESULT_SUCCESS);
  Destroy(one);
  Destroy(two);
  FreeAddresses(addresses, 3);
}

TEST_F(VirtualMemoryTest, ContentsStayWithThePhysicalMemory) {
  uint8_t* const addresses = Reserve(2);
  const ze_physical_mem_handle_t memory = Tiles(1);
  ASSERT_EQ(Map(addresses, 1, memory), ZE_RESULT_SUCCESS);
  std::memcpy(addresses, "tile", 4);
  ASSERT_EQ(Unmap(addresses, 1), ZE_RESULT_SUCCESS);
  ASSERT_EQ(Map(addresses + kTile, 1, memory), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::memcmp(addresses + kTile, "tile", 4), 0);
  ASSERT_EQ(Unmap(addresses + kTile, 1), ZE_RESULT_SUCCESS);
  Destroy(memory);
  FreeAddresses(addresses, 2);
}

TEST_F(VirtualMemoryTest, ACopyThroughAHoleLosesTheDevice) {
  uint8_t* const addresses = Reserve(2);
  const ze_physical_mem_handle_t memory = Tiles(1);
  ASSERT_EQ(Map(addresses, 1, memory), ZE_RESULT_SUCCESS);
  uint8_t* const copy = Host(2 * kTile);
  EXPECT_EQ(Copy(copy, addresses, kTile), ZE_RESULT_SUCCESS);
  EXPECT_EQ(Copy(copy, addresses, kTile + 1), ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(Copy(copy, addresses + kTile, 1), ZE_RESULT_ERROR_DEVICE_LOST);
  Free(copy);
  ASSERT_EQ(Unmap(addresses, 1), ZE_RESULT_SUCCESS);
  Destroy(memory);
  FreeAddresses(addresses, 2);
}

TEST_F(VirtualMemoryTest, ReadOnlyMappingsAreNotWritten) {
  uint8_t* const addresses = Reserve(1);
  const ze_physical_mem_handle_t memory = Tiles(1);
  ASSERT_EQ(Map(addresses, 1, memory, 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY), ZE_RESULT_SUCCESS);
  uint8_t* const host = Host(64);
  EXPECT_EQ(Copy(host, addresses, 64), ZE_RESULT_SUCCESS);
  EXPECT_EQ(Copy(addresses, host, 64), ZE_RESULT_ERROR_DEVICE_LOST);
  ASSERT_EQ(zeVirtualMemSetAccessAttribute(context_, addresses, kTile,
                                           ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(Copy(addresses, host, 64), ZE_RESULT_SUCCESS);
  ze_memory_access_attribute_t access = ZE_MEMORY_ACCESS_ATTRIBUTE_NONE;
  size_t equal = 0;
  ASSERT_EQ(zeVirtualMemGetAccessAttribute(context_, addresses, kTile, &access, &equal),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(access, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE);
  EXPECT_EQ(equal, kTile);
  Free(host);
  ASSERT_EQ(Unmap(addresses, 1), ZE_RESULT_SUCCESS);
  Destroy(memory);
  FreeAddresses(addresses, 1);
}

TEST_F(VirtualMemoryTest, AFreshReservationHasNoAccess) {
  uint8_t* const addresses = Reserve(4);
  const auto look = [&](size_t tile, size_t tiles, size_t equal_tiles) {
    ze_memory_access_attribute_t access = ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE;
    size_t equal = 0;
    EXPECT_EQ(zeVirtualMemGetAccessAttribute(context_, addresses + tile * kTile, tiles * kTile,
                                             &access, &equal),
              ZE_RESULT_SUCCESS);
    EXPECT_EQ(equal, equal_tiles * kTile) << tile << " " << tiles;
    return access;
  };
  EXPECT_EQ(look(0, 4, 4), ZE_MEMORY_ACCESS_ATTRIBUTE_NONE);
  const ze_physical_mem_handle_t memory = Tiles(1);
  ASSERT_EQ(Map(addresses + kTile, 1, memory), ZE_RESULT_SUCCESS);
  EXPECT_EQ(look(0, 4, 1), ZE_MEMORY_ACCESS_ATTRIBUTE_NONE);
  EXPECT_EQ(look(1, 3, 1), ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE);
  EXPECT_EQ(look(2, 1, 1), ZE_MEMORY_ACCESS_ATTRIBUTE_NONE);
  ASSERT_EQ(Unmap(addresses + kTile, 1), ZE_RESULT_SUCCESS);
  Destroy(memory);
  FreeAddresses(addresses, 4);
}

TEST_F(VirtualMemoryTest, WhatDoesNotFitIsRefused) {
  uint8_t* const addresses = Reserve(2);
  const ze_physical_mem_handle_t memory = Tiles(1);
  ze_physical_mem_handle_t odd = nullptr;
  void* reserved = nullptr;
  EXPECT_EQ(TryTile(kTile + 1, &odd), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
  EXPECT_EQ(zeVirtualMemReserve(context_, kAnywhere, 100, &reserved),
            ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
  EXPECT_EQ(Map(addresses, 2, memory), ZE_RESULT_ERROR_INVALID_ARGUMENT) << "too long";
  EXPECT_EQ(Map(addresses + 1, 1, memory), ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
  EXPECT_EQ(Map(addresses + 2 * kTile, 1, memory), ZE_RESULT_ERROR_INVALID_ARGUMENT) << "outside";
  ASSERT_EQ(Map(addresses, 1, memory), ZE_RESULT_SUCCESS);
  EXPECT_EQ(Map(addresses, 1, memory), ZE_RESULT_ERROR_INVALID_ARGUMENT) << "mapped already";
  EXPECT_EQ(Unmap(addresses, 2), ZE_RESULT_ERROR_INVALID_ARGUMENT) << "half of it is a hole";
  EXPECT_EQ(zeVirtualMemFree(context_, addresses, 2 * kTile), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
  EXPECT_EQ(zeMemFree(context_, addresses), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(Unmap(addresses, 1), ZE_RESULT_SUCCESS);
  Destroy(memory);
  EXPECT_EQ(zeVirtualMemFree(context_, addresses, kTile), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  FreeAddresses(addresses, 2);
}

TEST_F(VirtualMemoryTest, DestroyedWhileMappedItGoesWithItsMapping) {
  uint8_t* const addresses = Reserve(1);
  const ze_physical_mem_handle_t memory = Tiles(1);
  ASSERT_EQ(Map(addresses, 1, memory), ZE_RESULT_SUCCESS);
  Destroy(memory);
  addresses[0] = 1;
  EXPECT_EQ(Statistics().live_bytes, kTile);
  ASSERT_EQ(Unmap(addresses, 1), ZE_RESULT_SUCCESS);
  EXPECT_EQ(Statistics().live_bytes, 0u);
  FreeAddresses(addresses, 1);
}

TEST_F(VirtualMemoryTest, HiddenTilesAreReachedByCopies) {
  SetSwitches({{"NPUBANK_NPU_HOST_ACCESS", "0"}});
  uint8_t* const addresses = Reserve(1);
  const ze_physical_mem_handle_t memory = Tiles(1);
  ASSERT_EQ(Map(addresses, 1, memory), ZE_RESULT_SUCCESS);
  EXPECT_DEATH(*static_cast<volatile uint8_t*>(addresses) = 1, "");
  uint8_t* const host = Host(64);
  std::memset(host, 3, 64);
  EXPECT_EQ(Copy(addresses, host, 64), ZE_RESULT_SUCCESS);
  std::memset(host, 0, 64);
  EXPECT_EQ(Copy(host, addresses, 64), ZE_RESULT_SUCCESS);
  EXPECT_EQ(host[63], 3);
  Free(host);
  ASSERT_EQ(Unmap(addresses, 1), ZE_RESULT_SUCCESS);
  Destroy(memory);
  FreeAddresses(addresses, 1);
}

}  // namespace
}  // namespace npubank
