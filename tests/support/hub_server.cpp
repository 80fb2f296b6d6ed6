#include "support/hub_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenzro::testing {
namespace {

constexpr std::size_t kSlowBytes = 4096;
constexpr int kSlowMilliseconds = 2;

bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

HubServer::Request parse(const std::string& head) {
  HubServer::Request request;
  std::size_t end = head.find("\r\n");
  const std::size_t begin = head.find(' ') + 1;
  request.path = head.substr(begin, head.find(' ', begin) - begin);
  request.file = request.path.substr(request.path.rfind('/') + 1);
  while (end + 2 < head.size()) {
    const std::size_t next = head.find("\r\n", end + 2);
    const std::string line = head.substr(end + 2, next - end - 2);
    end = next;
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) break;
    request.headers[lower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  const std::string range = request.headers["range"];
  const std::size_t dash = range.find('-');
  if (range.starts_with("bytes=") && dash != std::string::npos) {
    request.first = number(std::string_view(range).substr(6, dash - 6));
    request.last = number(std::string_view(range).substr(dash + 1));
  }
  return request;
}

}  // namespace

HubServer::HubServer(std::string folder) : folder_(std::move(folder)) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  void* const raw = &address;
  socklen_t size = sizeof address;
  if (::bind(fd_, static_cast<const sockaddr*>(raw), size) != 0 || ::listen(fd_, 64) != 0)
    std::abort();
  ::getsockname(fd_, static_cast<sockaddr*>(raw), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

HubServer::~HubServer() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    for (const int peer : peers_) ::shutdown(peer, SHUT_RDWR);
  }
  ::shutdown(fd_, SHUT_RDWR);
  thread_.join();
  for (std::thread& talk : talks_) talk.join();
  for (const int peer : peers_) ::close(peer);
  ::close(fd_);
}

std::string HubServer::url() const {
  return "http://127.0.0.1:" + std::to_string(port_);
}

void HubServer::set_rule(Rule rule) {
  const std::lock_guard lock(mutex_);
  rule_ = std::move(rule);
}

std::vector<HubServer::Request> HubServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::map<std::string, std::uint64_t> HubServer::bytes_sent() const {
  const std::lock_guard lock(mutex_);
  return bytes_sent_;
}

void HubServer::serve() {
  for (;;) {
    const int peer = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (peer < 0 || is_over_) {
      if (peer >= 0) ::close(peer);
      return;
    }
    peers_.push_back(peer);
    talks_.emplace_back([this, peer] { talk(peer); });
  }
}

void HubServer::talk(int peer) {
  // A client that hangs up while a file is sent to it must not end the program.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  std::string input;
  std::array<char, 8192> chunk{};
  for (;;) {
    const std::size_t end = input.find("\r\n\r\n");
    if (end == std::string::npos) {
      const ssize_t got = ::recv(peer, chunk.data(), chunk.size(), 0);
      if (got <= 0) break;
      input.append(chunk.data(), static_cast<std::size_t>(got));
      continue;
    }
    const Request request = parse(input.substr(0, end + 2));
    input.erase(0, end + 4);
    if (!answer(peer, request)) break;
  }
  ::shutdown(peer, SHUT_RDWR);
}

bool HubServer::answer(int peer, Request request) {
  Answer answer;
  {
    const std::lock_guard lock(mutex_);
    request.number = requests_.size() + 1;
    requests_.push_back(request);
    if (rule_) answer = rule_(request);
  }
  if (answer.is_silent) {
    std::array<char, 64> rest{};
    while (::recv(peer, rest.data(), rest.size(), 0) > 0) {
    }
    return false;
  }
  if (answer.status == 0) return send_file(peer, request, answer);
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) +
                     " Fault\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\n";
  for (const std::string& header : answer.headers) head += header + "\r\n";
  return send_all(peer, head + "\r\n" + answer.body);
}

bool HubServer::send_file(int peer, const Request& request, const Answer& answer) {
  const std::string path = folder_ + "/" + request.file;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);

  struct stat info {};

  if (file < 0 || ::fstat(file, &info) != 0)
    return send_all(peer, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const bool is_part = request.first && !answer.ignores_range;
  const std::uint64_t first = is_part ? *request.first : 0;
  std::string head;
  std::uint64_t length = size;
  if (is_part && first >= size) {
    length = 0;
    head = "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */" + std::to_string(size);
  } else if (is_part) {
    const std::uint64_t last = std::min(request.last.value_or(size - 1), size - 1);
    length = last - first + 1;
    head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(first) + "-" +
           std::to_string(last) + "/" + std::to_string(size);
  } else {
    head = "HTTP/1.1 200 OK";
  }
  head += "\r\nETag: \"" + std::to_string(info.st_ino) + "-" +
          std::to_string(info.st_mtim.tv_nsec) + "\"\r\nContent-Length: " + std::to_string(length) +
          "\r\n";
  for (const std::string& header : answer.headers) head += header + "\r\n";
  const bool is_sent =
      send_all(peer, head + "\r\n") && send_part(peer, file, first, length, answer, request.file);
  ::close(file);
  return is_sent;
}

bool HubServer::send_part(int peer, int file, std::uint64_t first, std::uint64_t length,
                          const Answer& answer, const std::string& name) {
  std::uint64_t left = std::min(length, answer.cut_after.value_or(length));
  auto offset = static_cast<off_t>(first);
  while (left > 0) {
    const std::uint64_t slow = answer.slow_bytes.value_or(kSlowBytes);
    const std::uint64_t step = answer.is_slow ? std::min<std::uint64_t>(left, slow) : left;
    const ssize_t sent = ::sendfile(peer, file, &offset, static_cast<std::size_t>(step));
    if (sent <= 0) return false;
    left -= static_cast<std::uint64_t>(sent);
    {
      const std::lock_guard lock(mutex_);
      bytes_sent_[name] += static_cast<std::uint64_t>(sent);
    }
    if (answer.is_slow) ::poll(nullptr, 0, kSlowMilliseconds);
  }
  return !answer.cut_after;
}

}  // namespace tenzro::testing
