// What a call to a peer costs: QUIC over loopback, through the endpoint.
//
// usage: net_bench [--json FILE] [--quick]
//
// Two endpoints, each on its own loop and thread; bulk goes between two others, because on a node
// blobs and calls have connections of their own. Rows:
//   echo 1 KiB         one call at a time: request and reply of 1 KiB
//   echo 1 KiB x 64    64 calls under way: calls a second
//   layer call         one at a time: a request of 70 KB, a reply of 256 KiB, as 32 rows of a layer
//   bulk               replies of 4 MiB to empty requests, four under way
//   bulk, upload       requests of 4 MiB, empty replies
// and, as the ceiling, `raw`: the same bytes as plain UDP datagrams of one packet's size, sent with
// segmentation offload and received with coalescing, neither acknowledged nor encrypted.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tenzro/net/endpoint.hpp"

#include "report.hpp"

namespace {

using namespace tenzro;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBulkBytes = 4 << 20;
constexpr std::size_t kSmallBytes = 1024;
constexpr std::size_t kLayerRequestBytes = 70'000;
constexpr std::size_t kLayerReplyBytes = 256 << 10;
constexpr std::size_t kSegment = 1452;
constexpr std::size_t kBatchSegments = 44;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

crypto::KeyPair key_of(std::uint8_t value) {
  crypto::Seed seed{};
  seed.fill(value);
  return crypto::KeyPair::from_seed(seed);
}

/// An endpoint on a loop and thread of its own.
class Node final : public net::Handler {
 public:
  explicit Node(std::uint8_t seed) : key_(key_of(seed)) {
    auto made = net::Endpoint::listen(loop_, key_, {.listen = "127.0.0.1:0"}, *this);
    if (!made) {
      std::fprintf(stderr, "net_bench: %s\n", made.error().message().c_str());
      std::exit(1);
    }
    endpoint_ = std::move(*made);
    thread_ = std::thread([this] { loop_.run(); });
  }

  ~Node() override {
    loop_.post([this] {
      endpoint_.reset();
      loop_.stop();
    });
    thread_.join();
  }

  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] net::Target target() const {
    return {.id = key_.public_key(), .addresses = {endpoint_->address()}};
  }

  /// Serves requests of any size: long ones with nothing, those of a layer's size with such a
  /// reply, empty ones with `bulk`, others with themselves.
  void on_request(net::Request request) override {
    if (request.bytes.empty()) return endpoint_->reply(request.id, {bulk_});
    if (request.bytes.size() == kLayerRequestBytes) {
      return endpoint_->reply(request.id, {bulk_.slice(0, kLayerReplyBytes)});
    }
    if (request.bytes.size() > kSmallBytes) return endpoint_->reply(request.id, {});
    endpoint_->reply(request.id, {request.bytes});
  }

  void on_request_cancelled(PeerRequestId) override {}

  void on_reply(PeerCallId, Result<net::Reply> reply) override {
    if (!reply) {
      std::fprintf(stderr, "net_bench: %s\n", reply.error().message().c_str());
      std::exit(1);
    }
    laps_.push_back(seconds_since(lap_begin_));
    if (++ended_ == wanted_) return done_.set_value();
    if (begun_ < wanted_) begin();
  }

  /// `count` calls, `width` of them under way; how long each took since the one before began.
  std::vector<double> run(const net::Target& target, const BufferRef& request, std::size_t count,
                          std::size_t width) {
    done_ = {};
    laps_.clear();
    loop_.post([&] {
      target_ = target;
      request_ = request;
      begun_ = ended_ = 0;
      wanted_ = count;
      for (std::size_t i = 0; i < std::min(width, count); ++i) begin();
    });
    done_.get_future().wait();
    return laps_;
  }

 private:
  void begin() {
    ++begun_;
    lap_begin_ = Clock::now();
    endpoint_->call(PeerCallId{next_call_++}, target_, wire::Protocol::exec, {request_});
  }

  const BufferRef bulk_ = BufferRef::copy_of(std::string(kBulkBytes, 'b'));
  exec::Loop loop_;
  crypto::KeyPair key_;
  std::unique_ptr<net::Endpoint> endpoint_;
  std::thread thread_;
  std::promise<void> done_;
  std::vector<double> laps_;
  Clock::time_point lap_begin_;
  net::Target target_;
  BufferRef request_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  std::size_t wanted_ = 0;
  std::uint64_t next_call_ = 1;
};

/// GB/s of `bytes` over one UDP socket pair.
double raw_rate(std::size_t bytes) {
  const auto open_socket = [] {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int size = 4 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    return fd;
  };
  const int to = open_socket();
  const int from = open_socket();
  const int one = 1;
  const int segment = kSegment;
  setsockopt(to, SOL_UDP, UDP_GRO, &one, sizeof one);
  setsockopt(from, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
  timeval patience{.tv_sec = 0, .tv_usec = 200'000};
  setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  void* raw = &address;
  auto* generic = static_cast<sockaddr*>(raw);
  socklen_t size = sizeof address;
  if (bind(to, generic, size) != 0 || getsockname(to, generic, &size) != 0 ||
      connect(from, generic, size) != 0) {
    std::exit(1);
  }
  std::atomic<bool> is_over{false};
  std::thread sender([&] {
    const std::vector<char> batch(kSegment * kBatchSegments, 'r');
    while (!is_over.load()) (void)send(from, batch.data(), batch.size(), 0);
  });
  std::vector<char> buffer(65'536);
  std::size_t got = 0;
  const Clock::time_point begin = Clock::now();
  while (got < bytes) {
    const ssize_t read = recv(to, buffer.data(), buffer.size(), 0);
    if (read <= 0) break;
    got += static_cast<std::size_t>(read);
  }
  const double rate = static_cast<double>(got) / seconds_since(begin) / 1e9;
  is_over = true;
  sender.join();
  ::close(to);
  ::close(from);
  return rate;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  std::size_t samples = 9;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      samples = 3;
    } else if (word == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: net_bench [--json FILE] [--quick]\n");
      return 2;
    }
  }
  std::vector<bench::Row> rows;
  const auto add = [&](bench::Row row) {
    bench::print(row);
    rows.push_back(std::move(row));
  };
  Node server(1);
  Node client(2);
  const net::Target target = server.target();
  const BufferRef small = BufferRef::copy_of(std::string(kSmallBytes, 's'));
  const BufferRef large = BufferRef::copy_of(std::string(kBulkBytes, 'l'));
  client.run(target, small, 200, 1);  // dials, and warms up
  std::vector<double> laps = client.run(target, small, 1000 * samples, 1);
  for (double& lap : laps) lap *= 1e6;
  add(bench::make_row("echo 1 KiB", "ours", 2, "us", std::move(laps), 60));
  const BufferRef layer = BufferRef::copy_of(std::string(kLayerRequestBytes, 'y'));
  client.run(target, layer, 20, 1);
  laps = client.run(target, layer, 200 * samples, 1);
  for (double& lap : laps) lap *= 1e6;
  add(bench::make_row("layer call", "ours", 2, "us", std::move(laps)));
  Node source(3);
  Node sink(4);
  const net::Target bulk_target = source.target();
  sink.run(bulk_target, {}, 4, 4);
  const auto rate = [](Node& from, const net::Target& to, const BufferRef& request,
                       std::size_t calls, std::size_t width) {
    const Clock::time_point begin = Clock::now();
    from.run(to, request, calls, width);
    return static_cast<double>(calls) / seconds_since(begin);
  };
  std::vector<double> calls;
  std::vector<double> down;
  std::vector<double> up;
  std::vector<double> raw;
  constexpr std::size_t kBulkCalls = 64;
  for (std::size_t i = 0; i < samples; ++i) {
    calls.push_back(rate(client, target, small, 5000, 64));
    down.push_back(rate(sink, bulk_target, {}, kBulkCalls, 4) * kBulkBytes / 1e9);
    up.push_back(rate(sink, bulk_target, large, kBulkCalls, 4) * kBulkBytes / 1e9);
    raw.push_back(raw_rate(kBulkCalls * kBulkBytes));
  }
  add(bench::make_row("echo 1 KiB x 64", "ours", 2, "calls/s", std::move(calls)));
  add(bench::make_row("bulk", "ours", 2, "GB/s", std::move(down), 1.0));
  add(bench::make_row("bulk, upload", "ours", 2, "GB/s", std::move(up), 1.0));
  add(bench::make_row("bulk", "raw", 2, "GB/s", std::move(raw)));
  if (!json.empty() && !bench::write_json(json, rows)) {
    std::fprintf(stderr, "net_bench: cannot write %s\n", json.c_str());
    return 1;
  }
  return 0;
}
