#include "http_node.hpp"

#include <array>
#include <cstdio>
#include <new>

#include <curl/curl.h>

#include "tenzro/base/url.hpp"

#include "files.hpp"
#include "format.hpp"
#include "interrupt.hpp"

namespace tenzro::cli {
namespace {

/// How much of a body that is not JSON-RPC goes into a message.
constexpr std::size_t kQuoteBytesMax = 200;
/// An upload that moves fewer bytes a second than this, for that long, has stalled.
constexpr long kStalledBytesPerSecond = 1024;
constexpr long kStalledSeconds = 60;
constexpr int kJsonDepthMax = 64;
/// The code of JSON-RPC.
constexpr std::string_view kMethodNotFound = "-32601";

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }

  void operator()(curl_slist* list) const { curl_slist_free_all(list); }

  void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
};

using CurlHandle = std::unique_ptr<CURL, CurlDeleter>;
using Headers = std::unique_ptr<curl_slist, CurlDeleter>;
using File = std::unique_ptr<std::FILE, CurlDeleter>;

void append(Headers& headers, const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(headers.release());
  headers.reset(longer);
}

bool is_loopback(const std::string& url) {
  const auto parsed = parse_url(url);
  return parsed && is_loopback_host(parsed->host);
}

struct Received {
  std::string body;
  bool is_too_large = false;
};

extern "C" std::size_t on_curl_bytes(char* data, std::size_t size, std::size_t count, void* into) {
  auto* const received = static_cast<Received*>(into);
  const std::size_t bytes = size * count;
  if (bytes > HttpNode::kAnswerBytesMax - received->body.size()) {
    received->is_too_large = true;
    return 0;
  }
  received->body.append(data, bytes);
  return bytes;
}

extern "C" int on_curl_progress(void* /*unused*/, curl_off_t /*down_total*/, curl_off_t /*down*/,
                                curl_off_t /*up_total*/, curl_off_t /*up*/) {
  return is_interrupted() ? 1 : 0;
}

std::string quote(std::string_view body) {
  return printable(body.substr(0, kQuoteBytesMax)) + (body.size() > kQuoteBytesMax ? "..." : "");
}

/// Nesting of JSON text, so that the parser's recursion is bounded before it starts.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kJsonDepthMax) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Outcome<std::string> normalise_url(std::string_view text) {
  // Neither is echoed: a password or a token may stand there.
  if (text.find('@') != std::string_view::npos)
    return failure(ExitCode::usage, "the URL names a user; a node's token is TENZRO_TOKEN");
  if (text.find_first_of("?#") != std::string_view::npos)
    return failure(ExitCode::usage, "the URL of a node has no query and no fragment");
  std::string url(text);
  if (url.find("://") == std::string::npos) url = "http://" + url;
  while (!url.empty() && url.back() == '/') url.pop_back();
  if (const auto parsed = parse_url(url); !parsed)
    return failure(ExitCode::usage, printable(parsed.error().message()));
  return url;
}

Outcome<Json> read_answer(long status, std::string_view body) {
  const Json answer =
      is_too_deep(body) ? Json(Json::value_t::discarded) : Json::parse(body, nullptr, false);
  const Json& error = member(answer, "error");
  if (error.is_object()) {
    const bool is_unserved = text(error, "code") == kMethodNotFound;
    return failure(ExitCode::refused,
                   std::string(is_unserved ? "the node does not serve this method yet: " : "") +
                       "error " + text(error, "code") + ": " + text(error, "message"));
  }
  if (status == 200 && answer.is_object() && answer.contains("result")) return answer["result"];
  if (status == 401 || status == 403) {
    return failure(ExitCode::refused, "HTTP " + std::to_string(status) + ": " + quote(body));
  }
  return failure(
      ExitCode::unreachable,
      "this is not a Tenzro node: HTTP " + std::to_string(status) + ", body '" + quote(body) + "'");
}

struct HttpNode::State {
  explicit State(Settings settings_in)
      : settings(std::move(settings_in)), handle(curl_easy_init()) {
    if (!handle) throw std::bad_alloc();
  }

  /// Everything that all requests share.
  void prepare(const std::string& path, Received& received) {
    CURL* const curl = handle.get();
    curl_easy_reset(curl);  // keeps the connection
    curl_easy_setopt(curl, CURLOPT_URL, (settings.rpc_url + path).c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text.data());
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "tenzro/" TENZRO_VERSION);
    const std::chrono::milliseconds connect = kConnectTimeout;
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect.count()));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_curl_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &received);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_curl_progress);
    if (is_loopback(settings.rpc_url)) curl_easy_setopt(curl, CURLOPT_PROXY, "");
    if (!settings.ca_file.empty()) {
      curl_easy_setopt(curl, CURLOPT_CAINFO, settings.ca_file.c_str());
    }
    headers.reset();
    if (!settings.token.empty()) append(headers, "Authorization: Bearer " + settings.token);
    error_text.fill('\0');
  }

  void limit_time() {
    curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT, static_cast<long>(settings.timeout.count()));
  }

  Outcome<Page> perform(Received& received) {
    CURL* const curl = handle.get();
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
    const CURLcode code = curl_easy_perform(curl);
    if (is_interrupted()) return failure(ExitCode::interrupted, "interrupted");
    if (received.is_too_large) {
      return failure(ExitCode::refused, "the answer is larger than " + bytes_text(kAnswerBytesMax));
    }
    Page page;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &page.status);
    // A server that refuses an upload early answers and hangs up: the answer is what counts.
    const bool is_answered = page.status >= 400 && !received.body.empty();
    if (code != CURLE_OK && !is_answered) return failure(reason_of(code));
    page.body = std::move(received.body);
    return page;
  }

  [[nodiscard]] Failure reason_of(CURLcode code) const {
    std::string why = error_text[0] != '\0' ? error_text.data() : curl_easy_strerror(code);
    return {ExitCode::unreachable, settings.rpc_url + ": " + printable(why)};
  }

  const Settings settings;
  CurlHandle handle;
  Headers headers;
  std::array<char, CURL_ERROR_SIZE> error_text{};
};

HttpNode::HttpNode(Settings settings) : state_(std::make_unique<State>(std::move(settings))) {}

HttpNode::~HttpNode() = default;

Outcome<Json> HttpNode::call(const Request& request) {
  const Json envelope = {
      {"jsonrpc", "2.0"}, {"id", 1}, {"method", request.method}, {"params", request.params}};
  const std::string body = dump(envelope);
  Received received;
  state_->prepare("/", received);
  state_->limit_time();
  append(state_->headers, "Content-Type: application/json");
  append(state_->headers, "Expect:");  // no round trip before the body
  CURL* const curl = state_->handle.get();
  curl_easy_setopt(curl, CURLOPT_POST, 1L);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  const Outcome<Page> page = state_->perform(received);
  if (!page) return failure(page.error());
  return read_answer(page->status, page->body);
}

Outcome<Page> HttpNode::get(const std::string& path) {
  Received received;
  state_->prepare(path, received);
  state_->limit_time();
  curl_easy_setopt(state_->handle.get(), CURLOPT_HTTPGET, 1L);
  return state_->perform(received);
}

Outcome<std::string> HttpNode::upload(const std::string& path) {
  const Outcome<std::uint64_t> size = file_size(path);
  if (!size) return failure(size.error());
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) return failure(ExitCode::usage, path + ": cannot be read");

  Received received;
  state_->prepare("/blob", received);
  CURL* const curl = state_->handle.get();
  curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(curl, CURLOPT_READDATA, file.get());
  curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(*size));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kStalledBytesPerSecond);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
  const Outcome<Page> page = state_->perform(received);
  if (!page) return failure(page.error());
  const Json answer = is_too_deep(page->body) ? Json() : Json::parse(page->body, nullptr, false);
  const Json& uri = member(answer, "tenzro_uri");
  if (page->status < 300 && uri.is_string()) return uri.get<std::string>();
  const Json& message = member(member(answer, "error"), "message");
  return failure(ExitCode::refused, "upload: HTTP " + std::to_string(page->status) + ": " +
                                        (message.is_string() ? text(message) : quote(page->body)));
}

}  // namespace tenzro::cli
