#pragma once

/// \file
/// Whether a sanitizer is in this build: memory and time are then not those of the product.

namespace tenzro::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsInstrumented = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kIsInstrumented = true;
#else
inline constexpr bool kIsInstrumented = false;
#endif
#else
inline constexpr bool kIsInstrumented = false;
#endif

}  // namespace tenzro::testing
