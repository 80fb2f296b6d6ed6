#pragma once

/// \file
/// TENZRO_ASSERT: a bug of ours stops the process, in release builds too.
///
/// Never used on bytes from outside: those get an Error. State the invariant positively, one a
/// line.

namespace tenzro {
/// Prints `file:line: assertion failed: text` to standard error and aborts.
[[noreturn]] void assertion_failed(const char* text, const char* file, int line);
}  // namespace tenzro

#define TENZRO_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::tenzro::assertion_failed(#condition, __FILE__, __LINE__))
