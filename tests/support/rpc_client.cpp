#include "support/rpc_client.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/bytes.hpp"

namespace tenzro::testing {
namespace {

constexpr int kAnswerSeconds =
    60;  // far above what any call takes: a hang fails the test instead of stopping it

int connect_to(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{.tv_sec = kAnswerSeconds, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

void send_all(int fd, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
}

HttpAnswer parse_answer(const std::string& text) {
  HttpAnswer answer;
  const std::size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) return answer;
  answer.status = std::stoi(text.substr(9, 3));
  answer.body = text.substr(end + 4);
  std::size_t line = text.find("\r\n") + 2;
  while (line < end) {
    const std::size_t next = text.find("\r\n", line);
    const std::size_t colon = text.find(": ", line);
    if (colon < next) {
      std::string name = text.substr(line, colon - line);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      answer.headers[name] = text.substr(colon + 2, next - colon - 2);
    }
    line = next + 2;
  }
  return answer;
}

}  // namespace

std::string RpcClient::raw(const std::string& bytes) const {
  const int fd = connect_to(address_);
  if (fd < 0) return "";
  send_all(fd, bytes);
  return read_rest(fd);
}

int RpcClient::ask_without_reading(const std::string& bytes) const {
  const int fd = connect_to(address_);
  if (fd < 0) return fd;
  send_all(fd, bytes);
  char first = 0;
  EXPECT_EQ(::recv(fd, &first, 1, MSG_PEEK), 1);
  return fd;
}

std::string RpcClient::read_rest(int fd) {
  std::string answer;
  std::array<char, 65536> chunk{};
  ssize_t got = 0;
  while ((got = ::recv(fd, chunk.data(), chunk.size(), 0)) > 0)
    answer.append(chunk.data(), static_cast<std::size_t>(got));
  ::close(fd);
  return answer;
}

void RpcClient::send_and_leave(const std::string& bytes) const {
  const int fd = connect_to(address_);
  if (fd < 0) return;
  send_all(fd, bytes);
  ::close(fd);
}

HttpAnswer RpcClient::send(const std::string& method, const std::string& path,
                           const std::map<std::string, std::string>& headers,
                           const std::string& body) const {
  std::string request = method + " " + path + " HTTP/1.1\r\nConnection: close\r\n";
  if (!headers.contains("Host")) request += "Host: " + address_ + "\r\n";
  for (const auto& [name, value] : headers) request += name + ": " + value + "\r\n";
  if (!body.empty() || method == "POST" || method == "PUT") {
    request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return parse_answer(raw(request + "\r\n" + body));
}

HttpAnswer RpcClient::post(const std::string& body) const {
  return send("POST", "/", {{"Content-Type", "application/json"}}, body);
}

nlohmann::json RpcClient::call(const std::string& method, const nlohmann::json& params) const {
  const nlohmann::json request{
      {"jsonrpc", "2.0"}, {"id", 1}, {"method", method}, {"params", params}};
  const HttpAnswer answer = post(request.dump());
  EXPECT_EQ(answer.status, 200) << answer.body;
  return nlohmann::json::parse(answer.body, nullptr, false);
}

nlohmann::json RpcClient::result(const std::string& method, const nlohmann::json& params) const {
  nlohmann::json reply = call(method, params);
  EXPECT_TRUE(reply.contains("result")) << method << ": " << reply.dump();
  return reply.value("result", nlohmann::json::object());
}

std::string base64_of(const std::string& bytes) {
  return base64_encode(as_u8(bytes));
}

std::string bytes_of_base64(const std::string& text) {
  std::string bytes(base64_decoded_size(text), '\0');
  const auto decoded = base64_decode(text, reinterpret_cast<std::uint8_t*>(bytes.data()));
  EXPECT_TRUE(decoded.has_value());
  return bytes;
}

}  // namespace tenzro::testing
