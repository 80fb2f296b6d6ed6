#pragma once
/// \file
/// Transport: the bytes of one connection, plain or TLS.
///
/// One read and one write may be in flight together. Handlers are always called later, from the
/// loop, also after `close` (with an error). Thread: the loop's.
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <system_error>

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>

namespace asio::ssl {
class context;
}  // namespace asio::ssl

namespace tenzro::http {

using TransferDone = std::function<void(std::error_code, std::size_t)>;
using HandshakeDone = std::function<void(std::error_code)>;
using WriteBuffers = std::array<asio::const_buffer, 2>;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual void handshake(HandshakeDone done) = 0;
  virtual void read_some(std::span<std::byte> into, TransferDone done) = 0;
  virtual void write_some(const WriteBuffers& buffers, TransferDone done) = 0;
  /// Says the end to the peer; reading goes on.
  virtual void shutdown_send() = 0;
  virtual void close() = 0;
  [[nodiscard]] virtual const asio::ip::tcp::socket& socket() const = 0;
};

[[nodiscard]] std::unique_ptr<Transport> make_plain_transport(asio::ip::tcp::socket socket);
[[nodiscard]] std::unique_ptr<Transport> make_tls_transport(asio::ip::tcp::socket socket,
                                                            asio::ssl::context& context);

}  // namespace tenzro::http
