#pragma once
namespace parent {
inline constexpr int kBank = 1;
}
