#pragma once
namespace parent {
inline constexpr int kSubmodel = 2;
}
