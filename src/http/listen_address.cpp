#include "tenzro/http/listen_address.hpp"

#include <charconv>

#include <asio/ip/address.hpp>

#include "tenzro/base/bytes.hpp"

namespace tenzro::http {
namespace {

tl::unexpected<Error> malformed(std::string_view text) {
  return fail(ErrorCode::invalid_params, "listen",
              "'" + echo(text) + "' is not ADDRESS:PORT (IPv6 in brackets)");
}

}  // namespace

Result<ListenAddress> ListenAddress::parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);

  std::uint16_t port = 0;
  const char* const end = port_text.data() + port_text.size();
  const auto [parsed_to, error] = std::from_chars(port_text.data(), end, port);
  if (port_text.empty() || error != std::errc{} || parsed_to != end) return malformed(text);

  if (host == "localhost") host = "127.0.0.1";
  const bool is_bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  std::error_code ignored;
  const asio::ip::address address = asio::ip::make_address(std::string(host), ignored);
  if (ignored || address.is_v6() != is_bracketed) return malformed(text);
  return ListenAddress{.host = address.to_string(), .port = port};
}

bool ListenAddress::is_loopback() const {
  std::error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

std::string ListenAddress::text() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace tenzro::http
