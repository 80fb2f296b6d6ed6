// Any bytes as one HTTP request: head, route and body. However the bytes are cut into reads, a
// request that is complete is the same request; no body passes its limit; nothing is read twice.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "tenzro/http/listen_address.hpp"

#include "body.hpp"
#include "byte_range.hpp"
#include "route.hpp"

namespace {

using namespace tenzro::http;

constexpr std::size_t kHeaderBytesMax = 1024;
constexpr std::size_t kInputBytes = 4096;
constexpr std::uint64_t kBodyBytesMax = 2000;

void demand(bool holds) {
  if (!holds) std::abort();
}

/// What became of the bytes; empty where they are no complete request.
struct Request {
  std::string target;
  std::string body;
  friend bool operator==(const Request&, const Request&) = default;
};

/// Bytes on their way into an Input, at most `read_bytes` at a time.
class Reader {
 public:
  Reader(std::string_view bytes, std::size_t read_bytes) : left_(bytes), read_bytes_(read_bytes) {}

  /// False at the end, and where the input is full.
  bool read(Input& input) {
    const std::span<std::byte> space = input.space();
    const std::size_t size = std::min({left_.size(), space.size(), read_bytes_});
    if (size == 0) return false;
    std::memcpy(space.data(), left_.data(), size);
    input.commit(size);
    left_.remove_prefix(size);
    return true;
  }

 private:
  std::string_view left_;
  std::size_t read_bytes_;
};

std::optional<RequestHead> read_head(Reader& reader, Input& input, RequestParser& parser) {
  while (reader.read(input)) {
    const RequestParser::Step step = parser.feed_head(input.unread());
    input.consume(step.consumed);
    if (step.outcome == RequestParser::Outcome::done) return parser.head();
    if (step.outcome != RequestParser::Outcome::need_input) return std::nullopt;
  }
  return std::nullopt;
}

void judge(const RequestHead& head) {
  static const HostList kHosts = *HostList::make("127.0.0.1", {});
  static const TokenTable kTokens;
  const auto choice =
      choose_route(head, {.hosts = kHosts, .tokens = kTokens, .arrived_at = "127.0.0.1"});
  if (const auto* refusal = std::get_if<Refusal>(&choice)) demand(refusal->status >= 400);
  const RangeChoice range = choose_range(head.range, 1000);
  demand(range.range.first + range.range.count <= 1000);
}

std::optional<Request> read_request(std::string_view bytes, std::size_t read_bytes) {
  Reader reader(bytes, read_bytes);
  Input input(kInputBytes);
  RequestParser parser(kHeaderBytesMax);
  std::optional<RequestHead> head = read_head(reader, input, parser);
  if (!head) return std::nullopt;
  judge(*head);
  if (!head->is_chunked && !head->content_length) head->content_length = 0;
  if (head->content_length.value_or(0) > kBodyBytesMax) return std::nullopt;
  if (head->is_chunked) parser.limit_body(kBodyBytesMax);

  ByteBudget budget(1U << 20U);
  Body body({.kind = Body::Kind::whole, .length = head->content_length, .bytes_max = kBodyBytesMax},
            budget);
  while (true) {
    const Body::Progress progress = body.take_from(input, parser);
    if (progress == Body::Progress::done) break;
    if (progress != Body::Progress::need_input || !reader.read(input)) return std::nullopt;
  }
  const tenzro::BufferRef whole = body.take();
  demand(whole.size() <= kBodyBytesMax);
  return Request{.target = head->target, .body = std::string(whole.text())};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const void* const raw = data;
  const std::string_view bytes(size == 0 ? "" : static_cast<const char*>(raw), size);
  const std::optional<Request> whole = read_request(bytes, kInputBytes);
  if (whole) {
    demand(read_request(bytes, 1) == whole);
    demand(read_request(bytes, 7) == whole);
  }
  const auto address = ListenAddress::parse(bytes);
  if (address) demand(ListenAddress::parse(address->text())->text() == address->text());
  const auto tokens = TokenTable::parse(bytes, "tokens");
  demand(tokens || tokens.error().where.starts_with("tokens:"));
  const std::optional<std::string> host = host_name(bytes);
  if (host && host->find(':') == std::string::npos) demand(host_name(*host) == host);
  return 0;
}
