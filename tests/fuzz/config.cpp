// Any text is a configuration or an error that names the file; it never stops the process.
#include "tenzro/config/config.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = tenzro::config::parse(text, "fuzz.toml");
  if (!config && !config.error().message().starts_with("fuzz.toml")) std::abort();
  return 0;
}
