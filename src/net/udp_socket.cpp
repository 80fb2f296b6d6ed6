#include "udp_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <net/if.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace tenzro::net {
namespace {

constexpr std::size_t kReceiveMessages = 16;
constexpr std::size_t kReceiveBytes = 65'536;
/// Rounds of one wake-up: beyond it other events have their turn.
constexpr int kReceiveRounds = 4;
constexpr int kSocketBufferBytes = 4 << 20;
constexpr std::uint8_t kEcnMask = 3;

using ControlBuffer = std::array<char, 256>;

void set_option(int fd, int level, int name, int value) {
  // Every option set here improves a connection and none is needed: a refusal is no error.
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

std::size_t loopback_bytes_of(int fd) {
  constexpr int kHeaderBytes = 40 + 8;  // IPv6, UDP
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof "lo");
  if (ioctl(fd, SIOCGIFMTU, &request) != 0 || request.ifr_mtu <= kHeaderBytes) return 0;
  return static_cast<std::size_t>(request.ifr_mtu - kHeaderBytes);
}

template <typename Value>
void add_control(msghdr& message, int level, int type, Value value) {
  auto* at = static_cast<char*>(message.msg_control) + message.msg_controllen;
  cmsghdr header{};
  header.cmsg_level = level;
  header.cmsg_type = type;
  header.cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  message.msg_controllen += CMSG_SPACE(sizeof value);
}

int first_int(const cmsghdr* control) {
  int value = 0;
  const std::size_t there = control->cmsg_len - CMSG_LEN(0);
  std::memcpy(&value, CMSG_DATA(control), std::min(there, sizeof value));
  return value;
}

}  // namespace

UdpSocket::UdpSocket(asio::io_context& context, Options options)
    : options_(std::move(options)),
      socket_(context),
      receive_buffer_(kReceiveMessages * kReceiveBytes) {
  if (!options_.send_message) {
    options_.send_message = [](int fd, const msghdr* message) { return sendmsg(fd, message, 0); };
  }
}

Status UdpSocket::open(const SocketAddress& listen) {
  const auto refuse = [&](const char* what) -> Status {
    return fail(ErrorCode::io, listen.text(),
                std::string(what) + ": " + std::system_category().message(errno));
  };
  const int fd = socket(listen.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return refuse("cannot make a socket");
  std::error_code error;
  socket_.assign(listen.family() == AF_INET6 ? asio::ip::udp::v6() : asio::ip::udp::v4(), fd,
                 error);
  if (error) {
    ::close(fd);
    return fail(ErrorCode::io, listen.text(), error.message());
  }
  configure(listen.family());
  if (bind(fd, listen.raw(), listen.size()) != 0) return refuse("cannot listen");
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  void* raw = &bound;
  if (getsockname(fd, static_cast<sockaddr*>(raw), &size) != 0) return refuse("cannot listen");
  local_ = SocketAddress(static_cast<sockaddr*>(raw), size);
  return {};
}

void UdpSocket::configure(int family) {
  const int fd = socket_.native_handle();
  for (const int name : {SO_SNDBUF, SO_SNDBUFFORCE}) {
    set_option(fd, SOL_SOCKET, name, kSocketBufferBytes);
  }
  for (const int name : {SO_RCVBUF, SO_RCVBUFFORCE}) {
    set_option(fd, SOL_SOCKET, name, kSocketBufferBytes);
  }
  if (family == AF_INET6) {
    set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
  }
  // IPv4 options count on an IPv6 socket too: for the mapped addresses.
  set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
  set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
  if (options_.gro) set_option(fd, SOL_UDP, UDP_GRO, 1);
  loopback_bytes_max_ = loopback_bytes_of(fd);
}

void UdpSocket::close() {
  std::error_code ignored;
  socket_.close(ignored);
  kept_.clear();
}

void UdpSocket::send(const Batch& batch) {
  if (!is_open()) return;
  if (is_blocked()) return;
  if (!options_.gso || batch.bytes.size() <= batch.segment) {
    (void)send_or_keep(batch);
    return;
  }
  switch (send_once(batch)) {
    case Sent::yes:
    case Sent::lost:
      return;
    case Sent::no_room:
      keep(batch);
      return;
    case Sent::no_offload:
      break;
  }
  options_.gso = false;
  ++counts_.gso_fallbacks;
  (void)send_or_keep(batch);
}

bool UdpSocket::send_or_keep(const Batch& batch) {
  for (std::size_t at = 0; at < batch.bytes.size(); at += batch.segment) {
    Batch one = batch;
    one.bytes = batch.bytes.subspan(at, std::min(batch.segment, batch.bytes.size() - at));
    if (send_once(one) != Sent::no_room) continue;
    Batch rest = batch;
    rest.bytes = batch.bytes.subspan(at);
    keep(rest);
    return false;
  }
  return true;
}

UdpSocket::Sent UdpSocket::send_once(const Batch& batch) {
  iovec vector{const_cast<std::uint8_t*>(batch.bytes.data()), batch.bytes.size()};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(batch.to.raw());
  message.msg_namelen = batch.to.size();
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  if (batch.ecn != 0) {
    const bool is_ipv4 = batch.to.family() == AF_INET || batch.to.is_ipv4_mapped();
    add_control(message, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_TOS : IPV6_TCLASS,
                static_cast<int>(batch.ecn));
  }
  const bool is_many = batch.bytes.size() > batch.segment;
  if (is_many) {
    add_control(message, SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(batch.segment));
  }
  if (message.msg_controllen == 0) message.msg_control = nullptr;
  while (options_.send_message(socket_.native_handle(), &message) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return Sent::no_room;
    if (is_many && (errno == EIO || errno == EINVAL)) return Sent::no_offload;
    return Sent::lost;
  }
  counts_.bytes_sent += batch.bytes.size();
  counts_.packets_sent += (batch.bytes.size() + batch.segment - 1) / batch.segment;
  return Sent::yes;
}

void UdpSocket::keep(const Batch& batch) {
  std::vector<std::uint8_t> bytes(batch.bytes.begin(), batch.bytes.end());
  kept_batch_ = batch;
  kept_ = std::move(bytes);
  kept_batch_.bytes = kept_;
}

void UdpSocket::flush_kept() {
  const std::vector<std::uint8_t> bytes = std::exchange(kept_, {});
  Batch batch = kept_batch_;
  batch.bytes = bytes;
  send(batch);
}

void UdpSocket::wait_readable(std::function<void(std::error_code)> ready) {
  socket_.async_wait(asio::ip::udp::socket::wait_read, std::move(ready));
}

void UdpSocket::wait_writable(std::function<void(std::error_code)> ready) {
  socket_.async_wait(asio::ip::udp::socket::wait_write,
                     [this, ready = std::move(ready)](std::error_code error) {
                       if (!error) flush_kept();
                       ready(error);
                     });
}

void UdpSocket::receive(const std::function<void(const Datagram&)>& on_datagram) {
  std::array<mmsghdr, kReceiveMessages> messages{};
  std::array<iovec, kReceiveMessages> vectors{};
  std::array<sockaddr_storage, kReceiveMessages> senders{};
  alignas(cmsghdr) std::array<ControlBuffer, kReceiveMessages> controls{};
  for (int round = 0; round < kReceiveRounds && is_open(); ++round) {
    for (std::size_t i = 0; i < kReceiveMessages; ++i) {
      vectors[i] = {receive_buffer_.data() + i * kReceiveBytes, kReceiveBytes};
      messages[i].msg_hdr = {&senders[i],
                             sizeof senders[i],
                             &vectors[i],
                             1,
                             controls[i].data(),
                             controls[i].size(),
                             0};
    }
    const int count =
        recvmmsg(socket_.native_handle(), messages.data(), kReceiveMessages, MSG_DONTWAIT, nullptr);
    if (count <= 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto* bytes = static_cast<const std::uint8_t*>(vectors[i].iov_base);
      hand_out(messages[i].msg_hdr, {bytes, messages[i].msg_len}, on_datagram);
    }
    if (static_cast<std::size_t>(count) < kReceiveMessages) return;
  }
}

void UdpSocket::hand_out(const msghdr& message, std::span<const std::uint8_t> bytes,
                         const std::function<void(const Datagram&)>& on_datagram) {
  Datagram datagram{
      .from = SocketAddress(static_cast<const sockaddr*>(message.msg_name), message.msg_namelen)};
  std::size_t segment = bytes.size();
  auto* header = const_cast<msghdr*>(&message);
  for (cmsghdr* at = CMSG_FIRSTHDR(header); at != nullptr; at = CMSG_NXTHDR(header, at)) {
    if (at->cmsg_level == SOL_UDP && at->cmsg_type == UDP_GRO) {
      segment = static_cast<std::size_t>(first_int(at));
    } else if ((at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TOS) ||
               (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_TCLASS)) {
      datagram.ecn = static_cast<std::uint8_t>(first_int(at)) & kEcnMask;
    }
  }
  if (segment == 0) return;
  counts_.bytes_received += bytes.size();
  for (std::size_t offset = 0; offset < bytes.size(); offset += segment) {
    ++counts_.packets_received;
    datagram.bytes = bytes.subspan(offset, std::min(segment, bytes.size() - offset));
    on_datagram(datagram);
  }
}

}  // namespace tenzro::net
