#include "tenzro/http/server.hpp"

#include <utility>

#include <asio/ip/tcp.hpp>
#include <asio/ssl/context.hpp>
#include <asio/steady_timer.hpp>

#include "reply_head.hpp"
#include "session.hpp"

namespace tenzro::http {
namespace {

using asio::ip::tcp;

/// How long accepting rests when the process is out of descriptors.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

Result<std::unique_ptr<asio::ssl::context>> make_tls_context(const Options& options) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  std::error_code error;
  context->use_certificate_chain_file(options.tls_cert_file, error);
  if (error) return fail(ErrorCode::invalid_params, options.tls_cert_file, error.message());
  context->use_private_key_file(options.tls_key_file, asio::ssl::context::pem, error);
  if (error) return fail(ErrorCode::invalid_params, options.tls_key_file, error.message());
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return fail(ErrorCode::invalid_params, options.tls_key_file,
                "the key does not belong to the certificate in " + options.tls_cert_file);
  }
  return context;
}

Status open_acceptor(tcp::acceptor& acceptor, const ListenAddress& listen) {
  std::error_code error;
  const auto address = asio::ip::make_address(listen.host, error);
  if (error) return fail(ErrorCode::invalid_params, listen.text(), error.message());
  const tcp::endpoint endpoint(address, listen.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) return fail(ErrorCode::io, listen.text(), "cannot listen: " + error.message());
  return {};
}

/// The one answer for a connection beyond the limit: as much of it as the socket takes at once.
void refuse_connection(tcp::socket socket) {
  const Reply reply = make_reply({.status = 503,
                                  .message = "too many connections",
                                  .headers = {{.name = "Retry-After", .value = "1"}}});
  const std::string text =
      reply_head(reply, reply.body.size(), KeepAlive::no).append(reply.body.text());
  std::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
}

}  // namespace

bool Shared::is_busy() const {
  for (const auto& session : sessions) {
    if (session->is_busy()) return true;
  }
  return false;
}

void Shared::check_drained() {
  if (!is_draining || !on_drained || is_busy()) return;
  asio::post(context, std::exchange(on_drained, nullptr));
}

/// The listener; what outlives it is in Shared.
class Server::State : public std::enable_shared_from_this<Server::State> {
 public:
  State(asio::io_context& context, std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)), acceptor_(context), pause_(context) {}

  Status open() {
    const Options& options = shared_->options;
    if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
      return fail(ErrorCode::invalid_params, "tls_cert", "tls_cert and tls_key go together");
    }
    if (!options.tls_cert_file.empty()) {
      auto tls = make_tls_context(options);
      if (!tls) return fail(std::move(tls.error()));
      tls_ = std::move(*tls);
    }
    if (Status opened = open_acceptor(acceptor_, options.listen); !opened) return opened;
    std::error_code error;
    const tcp::endpoint bound = acceptor_.local_endpoint(error);
    if (error) return fail(ErrorCode::io, options.listen.text(), error.message());
    address_ = {.host = bound.address().to_string(), .port = bound.port()};
    accept();
    return {};
  }

  void stop_accepting() {
    std::error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
  }

  /// Ends everything without telling anyone.
  void abandon() {
    stop_accepting();
    shared_->handler = nullptr;
    shared_->on_drained = nullptr;
    close_all();
  }

  void drain(std::function<void()> on_drained) {
    stop_accepting();
    shared_->is_draining = true;
    shared_->on_drained = std::move(on_drained);
    const std::set<std::shared_ptr<Session>> sessions = shared_->sessions;  // drain removes some
    for (const auto& session : sessions) session->drain();
    shared_->check_drained();
  }

  /// The session of a request that is still open; null otherwise.
  [[nodiscard]] std::shared_ptr<Session> session_of(RequestRef id) const {
    const auto found = shared_->requests.find(id);
    return found == shared_->requests.end() ? nullptr : found->second.lock();
  }

  [[nodiscard]] const ListenAddress& address() const { return address_; }

  [[nodiscard]] Stats stats() const {
    Stats stats = shared_->stats;
    stats.connections_open = shared_->sessions.size();
    stats.bodies_bytes = shared_->bodies.used();
    return stats;
  }

 private:
  void accept() {
    acceptor_.async_accept([self = shared_from_this()](std::error_code error, tcp::socket socket) {
      self->on_accepted(error, std::move(socket));
    });
  }

  void on_accepted(std::error_code error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (error == asio::error::no_descriptors || error == asio::error::no_memory ||
        error == asio::error::no_buffer_space) {
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([self = shared_from_this()](std::error_code cancelled) {
        if (!cancelled && self->acceptor_.is_open()) self->accept();
      });
      return;
    }
    if (!error) begin_session(std::move(socket));
    accept();
  }

  void begin_session(tcp::socket socket) {
    ++shared_->stats.connections;
    if (shared_->sessions.size() >= shared_->options.connections_max) {
      ++shared_->stats.refusals[503];
      if (!tls_) refuse_connection(std::move(socket));
      return;
    }
    std::error_code ignored;  // a delay is no reason to refuse
    socket.set_option(tcp::no_delay(true), ignored);
    auto transport = tls_ ? make_tls_transport(std::move(socket), *tls_)
                          : make_plain_transport(std::move(socket));
    auto session = std::make_shared<Session>(shared_, std::move(transport));
    shared_->sessions.insert(session);
    session->start();
  }

  void close_all() {
    const std::set<std::shared_ptr<Session>> sessions = shared_->sessions;  // close removes them
    for (const auto& session : sessions) session->close();
  }

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<asio::ssl::context> tls_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  ListenAddress address_;
};

Server::Server(std::shared_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  state_->abandon();
}

Result<std::unique_ptr<Server>> Server::listen(exec::Loop& loop, Options options,
                                               Handler& handler) {
  auto hosts = HostList::make(options.listen.host, options.allowed_hosts);
  if (!hosts) return fail(std::move(hosts.error()));
  auto shared =
      std::make_shared<Shared>(loop.context(), std::move(options), std::move(*hosts), handler);
  auto state = std::make_shared<State>(loop.context(), std::move(shared));
  if (Status opened = state->open(); !opened) return fail(std::move(opened.error()));
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

void Server::reply(RequestRef id, const Reply& reply) {
  if (const auto session = state_->session_of(id)) session->reply(reply);
}

void Server::serve_blob(RequestRef id, std::uint64_t size) {
  if (const auto session = state_->session_of(id)) session->serve_blob(size);
}

void Server::send_piece(RequestRef id, const BufferRef& piece) {
  if (const auto session = state_->session_of(id)) session->send_piece(piece);
}

void Server::abort_blob(RequestRef id) {
  if (const auto session = state_->session_of(id)) session->abort_blob();
}

void Server::put_continue(RequestRef id) {
  if (const auto session = state_->session_of(id)) session->put_continue();
}

void Server::drain(std::function<void()> on_drained) {
  state_->drain(std::move(on_drained));
}

const ListenAddress& Server::address() const {
  return state_->address();
}

Stats Server::stats() const {
  return state_->stats();
}

}  // namespace tenzro::http
