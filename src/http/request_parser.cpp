#include "request_parser.hpp"

#include <string>

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "tenzro/base/assert.hpp"

namespace tenzro::http {
namespace beast = boost::beast::http;

struct RequestParser::State {
  beast::request_parser<beast::buffer_body> parser;
  bool has_begun = false;
  bool is_at_line_start = false;
  bool has_fold = false;
  bool has_body_begun = false;
  std::size_t head_bytes = 0;  ///< taken so far
  std::size_t head_bytes_max = 0;
};

namespace {

using Outcome = RequestParser::Outcome;

Outcome outcome_of(const boost::beast::error_code& error) {
  if (error == beast::error::need_more) return Outcome::need_input;
  if (error == beast::error::need_buffer) return Outcome::need_space;
  if (error == beast::error::header_limit) return Outcome::too_large;
  if (error == beast::error::body_limit) return Outcome::too_large;
  return Outcome::bad;
}

Method method_of(beast::verb verb) {
  switch (verb) {
    case beast::verb::get:
      return Method::get;
    case beast::verb::head:
      return Method::head;
    case beast::verb::post:
      return Method::post;
    case beast::verb::put:
      return Method::put;
    default:
      return Method::other;
  }
}

std::string text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

/// Fields without a name in the parser's table.
void read_unlisted_field(RequestHead& head, boost::beast::string_view name, std::string value) {
  if (boost::beast::iequals(name, "X-Tenzro-Node")) {
    head.node = std::move(value);
  } else if (boost::beast::iequals(name, "X-Tenzro-Time")) {
    head.node_time = std::move(value);
  } else if (boost::beast::iequals(name, "X-Tenzro-Signature")) {
    head.node_signature = std::move(value);
  }
}

void read_field(RequestHead& head, const beast::fields::value_type& field) {
  std::string value = text_of(field.value());
  switch (field.name()) {
    case beast::field::host:
      if (head.hosts++ == 0) head.host = std::move(value);
      break;
    case beast::field::authorization:
      if (head.authorizations++ == 0) head.authorization = std::move(value);
      break;
    case beast::field::content_type:
      head.content_type = std::move(value);
      break;
    case beast::field::content_encoding:
      head.content_encoding = std::move(value);
      break;
    case beast::field::range:
      head.range = std::move(value);
      break;
    case beast::field::if_range:
      head.if_range = std::move(value);
      break;
    case beast::field::expect:
      head.expectation = boost::beast::iequals(field.value(), "100-continue")
                             ? Expectation::continue_100
                             : Expectation::other;
      break;
    case beast::field::transfer_encoding:
      head.has_unknown_coding =
          head.has_unknown_coding || !boost::beast::iequals(field.value(), "chunked");
      break;
    case beast::field::unknown:
      read_unlisted_field(head, field.name_string(), std::move(value));
      break;
    default:
      break;
  }
}

/// Whether a line begins with a blank: the parser would take it as more of the line before, and a
/// proxy in front of us need not.
bool has_fold(std::string_view bytes, bool& is_at_line_start) {
  bool found = false;
  for (const char c : bytes) {
    found = found || (is_at_line_start && (c == ' ' || c == '\t'));
    is_at_line_start = c == '\n';
  }
  return found;
}

/// Whether a body begins with the line of its last chunk, and is cut so soon after that the parser,
/// once it has seen that line, would take fewer bytes for an error of ours and end the process. Any
/// body is longer.
bool is_cut_last_chunk(std::string_view body) {
  constexpr std::size_t kBodyBytesMin = 5;
  return body.size() < kBodyBytesMin && body.starts_with('0') &&
         body.find('\n') != std::string_view::npos;
}

}  // namespace

RequestParser::RequestParser(std::size_t header_bytes_max) : state_(std::make_unique<State>()) {
  state_->head_bytes_max = header_bytes_max;
  // Beast's own count of a head depends on how its bytes are cut into reads: feed_head counts.
  state_->parser.header_limit(static_cast<std::uint32_t>(2 * header_bytes_max));
  // The caller knows the route's limit only after the head. Not boost::none: Boost 1.74 takes that
  // as a limit below every length.
  state_->parser.body_limit(UINT64_MAX);
}

RequestParser::~RequestParser() = default;

RequestParser::Step RequestParser::feed_head(std::string_view bytes) {
  auto& parser = state_->parser;
  Step step;
  while (!parser.is_header_done()) {
    boost::beast::error_code error;
    const std::string_view rest = bytes.substr(step.consumed);
    const std::size_t taken =
        parser.put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    step.consumed += taken;
    state_->has_begun = state_->has_begun || !bytes.empty();
    if (has_fold(rest.substr(0, taken), state_->is_at_line_start)) state_->has_fold = true;
    if (!error) continue;
    step.outcome = outcome_of(error);
    break;
  }
  state_->head_bytes += step.consumed;
  if (parser.is_header_done()) step.outcome = state_->has_fold ? Outcome::bad : Outcome::done;
  std::size_t known = state_->head_bytes;
  if (step.outcome == Outcome::need_input) known += bytes.size() - step.consumed;
  if (known > state_->head_bytes_max) step.outcome = Outcome::too_large;
  return step;
}

bool RequestParser::has_begun() const {
  return state_->has_begun;
}

RequestHead RequestParser::head() const {
  const auto& parser = state_->parser;
  TENZRO_ASSERT(parser.is_header_done());
  const auto& message = parser.get();
  RequestHead head;
  head.method = method_of(message.method());
  head.target = text_of(message.target());
  head.is_http_1_0 = message.version() < 11;
  head.keep_alive = message.keep_alive();
  head.is_chunked = parser.chunked();
  if (const auto length = parser.content_length()) head.content_length = *length;
  for (const auto& field : message.base()) read_field(head, field);
  return head;
}

void RequestParser::limit_body(std::uint64_t bytes_max) {
  state_->parser.body_limit(bytes_max);
}

RequestParser::Step RequestParser::feed_chunked(std::string_view bytes,
                                                std::span<std::byte> output) {
  auto& parser = state_->parser;
  auto& body = parser.get().body();
  body.data = output.data();
  body.size = output.size();
  body.more = true;
  Step step;
  while (!parser.is_done()) {
    const std::string_view rest = bytes.substr(step.consumed);
    if (rest.empty() || (!state_->has_body_begun && is_cut_last_chunk(rest))) break;
    boost::beast::error_code error;
    const std::size_t taken =
        parser.put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    step.consumed += taken;
    state_->has_body_begun = state_->has_body_begun || taken > 0;
    step.produced = output.size() - body.size;
    // What ends the body is taken at once: its last chunk, which is empty, and the trailers.
    bool is_at_line_start = false;
    const bool is_folded =
        !error && parser.is_done() && has_fold(rest.substr(0, taken), is_at_line_start);
    if (!error && !is_folded) continue;
    step.outcome = is_folded ? Outcome::bad : outcome_of(error);
    return step;
  }
  step.outcome = parser.is_done() ? Outcome::done : Outcome::need_input;
  return step;
}

}  // namespace tenzro::http
