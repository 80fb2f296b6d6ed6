// Goal: a source, a redirect and a file name are taken or refused, and what is taken stays where it
// may lead.
#include <cstdint>
#include <string>

#include "tenzro/base/assert.hpp"

#include "source_address.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenzro;
  using namespace tenzro::prepare;
  const std::string text(static_cast<const char*>(static_cast<const void*>(data)), size);
  const auto address = SourceAddress::parse(text, PlainHttp::loopback_only);
  if (address && address->is_remote) {
    const std::string url = address->url_of("model.safetensors");
    TENZRO_ASSERT(check_url(url, PlainHttp::loopback_only).has_value());
    // Whatever the file is called, it stays at the server that was named.
    const std::string other = address->url_of(text);
    TENZRO_ASSERT(*origin_of(url) == *origin_of(text));
    TENZRO_ASSERT(other.starts_with(address->root + "/"));
  }
  if (check_redirect("https://hub.example/a", text, PlainHttp::loopback_only))
    TENZRO_ASSERT(text.starts_with("https://"));
  if (check_file_name(text)) TENZRO_ASSERT(text.find('/') == std::string::npos);
  return 0;
}
