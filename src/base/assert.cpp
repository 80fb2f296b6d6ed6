#include "tenzro/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace tenzro {

void assertion_failed(const char* text, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, text);
  std::abort();
}

}  // namespace tenzro
