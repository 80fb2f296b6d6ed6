#include "transport.hpp"

#include <asio/post.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>

namespace tenzro::http {
namespace {

using asio::ip::tcp;

void close_socket(tcp::socket& socket) {
  std::error_code ignored;  // a socket that fails to close is gone all the same
  socket.close(ignored);
}

void shutdown_socket(tcp::socket& socket) {
  std::error_code ignored;  // the peer may have reset the connection
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(tcp::socket socket) : socket_(std::move(socket)) {}

  void handshake(HandshakeDone done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done({}); });
  }

  void read_some(std::span<std::byte> into, TransferDone done) override {
    socket_.async_read_some(asio::buffer(into.data(), into.size()), std::move(done));
  }

  void write_some(const WriteBuffers& buffers, TransferDone done) override {
    socket_.async_write_some(buffers, std::move(done));
  }

  void shutdown_send() override { shutdown_socket(socket_); }

  void close() override { close_socket(socket_); }

  [[nodiscard]] const tcp::socket& socket() const override { return socket_; }

 private:
  tcp::socket socket_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(tcp::socket socket, asio::ssl::context& context)
      : stream_(std::make_shared<Stream>(std::move(socket), context)) {}

  void handshake(HandshakeDone done) override {
    stream_->async_handshake(asio::ssl::stream_base::server, std::move(done));
  }

  void read_some(std::span<std::byte> into, TransferDone done) override {
    stream_->async_read_some(asio::buffer(into.data(), into.size()), std::move(done));
  }

  void write_some(const WriteBuffers& buffers, TransferDone done) override {
    stream_->async_write_some(buffers, std::move(done));
  }

  void shutdown_send() override {
    // close_notify, then the end of the stream; whether the peer answers does not matter. The
    // stream is kept alive by the handler, as a read may be in flight beside it.
    stream_->async_shutdown([stream = stream_](std::error_code) {
      if (stream->lowest_layer().is_open()) shutdown_socket(stream->next_layer());
    });
  }

  void close() override { close_socket(stream_->next_layer()); }

  [[nodiscard]] const tcp::socket& socket() const override { return stream_->next_layer(); }

 private:
  using Stream = asio::ssl::stream<tcp::socket>;
  std::shared_ptr<Stream> stream_;
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(tcp::socket socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

std::unique_ptr<Transport> make_tls_transport(tcp::socket socket, asio::ssl::context& context) {
  return std::make_unique<TlsTransport>(std::move(socket), context);
}

}  // namespace tenzro::http
