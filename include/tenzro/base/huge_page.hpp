#pragma once
/// \file
/// How large a large page of memory is: what is to lie on such pages begins at a multiple of it.
#include <cstddef>

namespace tenzro {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20U;

}  // namespace tenzro
