#include "tenzro/base/bytes.hpp"
#include "tenzro/gossip/gossip.hpp"

namespace tenzro::gossip {

Result<Bootstrap> parse_bootstrap(std::string_view text) {
  const auto refuse = [&](const char* why) {
    return fail(ErrorCode::invalid_params, "bootstrap '" + echo(text) + "'", why);
  };
  Bootstrap entry;
  std::string_view address = text;
  if (const auto at = text.find('@'); at != std::string_view::npos) {
    entry.id = hash_from_hex(text.substr(0, at));
    if (!entry.id) return refuse("the endpoint id must be 64 lower-case hex digits");
    address = text.substr(at + 1);
  }
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return refuse("must be host:port");
  const std::string_view port = address.substr(colon + 1);
  std::uint32_t number = 0;
  for (const char digit : port) {
    if (digit < '0' || digit > '9' || port.size() > 5) return refuse("the port is not a number");
    number = number * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  if (number == 0 || number > 65'535) return refuse("the port is not a number from 1 to 65535");
  entry.address = std::string(address);
  return entry;
}

}  // namespace tenzro::gossip
