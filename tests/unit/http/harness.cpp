#include "harness.hpp"

#include <algorithm>
#include <future>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tenzro::http {

TestServer::TestServer(Options options) {
  options.listen = {.host = "127.0.0.1", .port = 0};
  auto server = Server::listen(loop_, std::move(options), *this);
  if (!server) throw std::runtime_error(server.error().message());
  server_ = std::move(*server);
  port_ = server_->address().port;
  thread_ = std::thread([this] { loop_.run(); });
}

TestServer::~TestServer() {
  on_loop([this](Server&) { server_.reset(); });
  loop_.stop();
  thread_.join();
}

void TestServer::push(Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

Event TestServer::wait_for(Event::Kind kind) {
  std::unique_lock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    while (!events_.empty()) {
      Event event = std::move(events_.front());
      events_.pop_front();
      if (event.kind == kind) return event;
    }
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && events_.empty()) {
      return {};
    }
  }
}

void TestServer::on_loop(const std::function<void(Server&)>& task) {
  std::promise<void> done;
  loop_.post([&] {
    task(*server_);
    done.set_value();
  });
  done.get_future().wait();
}

Stats TestServer::stats() {
  Stats stats;
  on_loop([&](Server& server) { stats = server.stats(); });
  return stats;
}

bool TestServer::eventually(const std::function<bool(const Stats&)>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (holds(stats())) return true;
  }
  return false;
}

void TestServer::reply(RequestRef id, int status, std::string_view text) {
  on_loop([&](Server& server) {
    server.reply(id, {.status = status,
                      .content_type = "application/json",
                      .body = BufferRef::copy_of(text),
                      .headers = {}});
  });
}

void TestServer::drain() {
  on_loop([this](Server& server) {
    server.drain([this] {
      const std::lock_guard lock(mutex_);
      is_drained_ = true;
      changed_.notify_all();
    });
  });
}

bool TestServer::wait_drained() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [this] { return is_drained_; });
}

void TestServer::on_rpc(RequestRef id, BufferRef body, const Caller& caller) {
  const std::string text(body.text());
  push({.kind = Event::Kind::rpc, .id = id, .text = text, .caller = caller});
  const std::string chosen = answer ? answer(text) : (text.starts_with("hold") ? "" : text);
  if (chosen.empty() && (answer || text.starts_with("hold"))) return;
  const bool is_silent = chosen == "notify";
  server_->reply(id, {.status = is_silent ? 204 : 200,
                      .content_type = is_silent ? "" : "application/json",
                      .body = is_silent ? BufferRef{} : BufferRef::copy_of(chosen),
                      .headers = {}});
}

void TestServer::on_page(RequestRef id, Page page) {
  push({.kind = Event::Kind::page, .id = id, .page = page});
  server_->reply(id, {.status = 200,
                      .content_type = "text/plain",
                      .body = BufferRef::copy_of("a page\n"),
                      .headers = {}});
}

void TestServer::on_blob(RequestRef id, const BlobHash&, const Caller& caller) {
  push({.kind = Event::Kind::blob, .id = id, .caller = caller});
  if (blob) {
    server_->serve_blob(id, blob->size());
  } else {
    server_->reply(id, {.status = 404, .content_type = "", .body = {}, .headers = {}});
  }
}

void TestServer::on_blob_piece_wanted(RequestRef id, const BlobHash& /*hash*/, std::uint64_t offset,
                                      std::size_t size) {
  push({.kind = Event::Kind::piece_wanted, .id = id, .offset = offset, .size = size});
  server_->send_piece(id, BufferRef::copy_of(std::string_view(*blob).substr(
                              static_cast<std::size_t>(offset), size)));
}

void TestServer::on_put_begun(RequestRef id, std::optional<std::uint64_t> size) {
  push({.kind = Event::Kind::put_begun, .id = id, .declared = size});
  if (takes_uploads) server_->put_continue(id);
}

void TestServer::on_put_piece(RequestRef id, BufferRef piece) {
  push({.kind = Event::Kind::put_piece, .id = id, .text = std::string(piece.text())});
  if (takes_uploads) server_->put_continue(id);
}

void TestServer::on_put_ended(RequestRef id) {
  push({.kind = Event::Kind::put_ended, .id = id});
  if (takes_uploads) {
    server_->reply(id, {.status = 201, .content_type = "", .body = {}, .headers = {}});
  }
}

void TestServer::on_request_gone(RequestRef id) {
  push({.kind = Event::Kind::gone, .id = id});
}

RawClient::RawClient(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const void* const raw = &address;
  if (::connect(fd, static_cast<const sockaddr*>(raw), sizeof address) == 0) {
    fd_ = fd;
  } else {
    ::close(fd);
  }
}

RawClient::~RawClient() {
  close();
}

bool RawClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::fill() {
  std::array<char, 65536> block{};
  const ssize_t got = ::recv(fd_, block.data(), block.size(), 0);
  if (got <= 0) return false;
  buffer_.append(block.data(), static_cast<std::size_t>(got));
  return true;
}

Response parse_head(std::string_view head) {
  Response response;
  response.status = std::stoi(std::string(head.substr(9, 3)));
  head.remove_prefix(head.find("\r\n") + 2);
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(head.size(), line.size() + 2));
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) break;
    response.headers[std::string(line.substr(0, colon))] = line.substr(colon + 2);
  }
  return response;
}

Response RawClient::receive(bool has_body) {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return {};
  }
  Response response = parse_head(std::string_view(buffer_).substr(0, end + 2));
  buffer_.erase(0, end + 4);
  const auto length = response.headers.find("Content-Length");
  if (!has_body || length == response.headers.end()) return response;
  const std::size_t size = std::stoul(length->second);
  while (buffer_.size() < size) {
    if (!fill()) return {};
  }
  response.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return response;
}

std::string RawClient::receive_all() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

bool RawClient::sees_end() {
  char byte = 0;
  return buffer_.empty() && ::recv(fd_, &byte, 1, 0) == 0;
}

void RawClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void RawClient::reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

Options options_with(const std::function<void(Options&)>& change) {
  Options options;
  change(options);
  return options;
}

std::string post(std::string_view body, std::string_view extra) {
  return "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
         "application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + std::string(extra) + "\r\n" + std::string(body);
}

std::string get(std::string_view path, std::string_view extra) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(extra) +
         "\r\n";
}

Response ask(std::uint16_t port, std::string_view request) {
  RawClient client(port);
  if (!client.is_connected() || !client.send(request)) return {};
  return client.receive(request.substr(0, 5) != "HEAD ");
}

}  // namespace tenzro::http
