#include "client_transfer.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "tenzro/base/bytes.hpp"

namespace tenzro::http {
namespace {

/// Status lines and headers of one reply, interim ones too.
constexpr std::size_t kReplyHeadBytesMax = 64UL << 10U;
constexpr std::size_t kFirstRoom = 16UL << 10U;
/// The most that libcurl allows: a third more bytes a second than with 128 KiB, and still in the
/// cache when it is copied on (bench/source_bench).
constexpr long kDownloadBufferBytes = 512L << 10U;
/// Kept no longer than servers keep theirs.
constexpr long kIdleConnectionSeconds = 50;

extern "C" std::size_t on_curl_header(char* /*data*/, std::size_t size, std::size_t count,
                                      void* transfer) {
  const std::size_t bytes = size * count;
  return static_cast<Transfer*>(transfer)->on_header(bytes) ? bytes : 0;
}

extern "C" std::size_t on_curl_body(char* data, std::size_t size, std::size_t count,
                                    void* transfer) {
  const std::size_t bytes = size * count;
  const std::span<const char> text(data, bytes);
  return static_cast<Transfer*>(transfer)->on_body(std::as_bytes(text)) ? bytes : 0;
}

long milliseconds(Duration duration) {
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return static_cast<long>(std::max<std::int64_t>(1, whole));  // 0 would mean: for ever
}

template <typename T>
void set(CURL* handle, CURLoption option, T value) {
  // Every option is one this version of libcurl knows, and its memory is all that can fail.
  if (curl_easy_setopt(handle, option, value) != CURLE_OK) throw std::bad_alloc();
}

void append(CurlHeaders& headers, const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(headers.release());
  headers.reset(longer);
}

}  // namespace

Transfer::Transfer(ClientRequest request, CallRef call, const ClientOptions& options,
                   std::size_t& replies_bytes)
    : request_(std::move(request)),
      call_(call),
      replies_bytes_max_(options.replies_bytes_max),
      replies_bytes_(replies_bytes),
      handle_(curl_easy_init()) {
  if (!handle_) throw std::bad_alloc();
  set_up(options);
  if (request_.download) {
    set_up_download();
  } else {
    set_up_request();
  }
  set_up_headers();
}

Transfer::~Transfer() {
  if (!request_.download) replies_bytes_ -= received_;
}

void Transfer::set_up(const ClientOptions& options) {
  CURL* const curl = handle_.get();
  set(curl, CURLOPT_PATH_AS_IS, 1L);
  set(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(curl, CURLOPT_FOLLOWLOCATION, 0L);
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_QUICK_EXIT, 1L);  // a resolver that hangs holds nobody up
  set(curl, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options.connect_timeout));
  set(curl, CURLOPT_MAXAGE_CONN, kIdleConnectionSeconds);
  set(curl, CURLOPT_ERRORBUFFER, error_text_.data());
  set(curl, CURLOPT_HEADERFUNCTION, on_curl_header);
  set(curl, CURLOPT_HEADERDATA, this);
  set(curl, CURLOPT_WRITEFUNCTION, on_curl_body);
  set(curl, CURLOPT_WRITEDATA, this);
  set(curl, CURLOPT_PRIVATE, this);
  if (!request_.range.empty()) set(curl, CURLOPT_RANGE, request_.range.c_str());
}

void Transfer::set_up_request() {
  CURL* const curl = handle_.get();
  set(curl, CURLOPT_URL, (request_.endpoint.text() + request_.path).c_str());
  set(curl, CURLOPT_PROTOCOLS_STR, request_.endpoint.is_tls ? "https" : "http");
  set(curl, CURLOPT_PROXY, "");
  set(curl, CURLOPT_TIMEOUT_MS, milliseconds(request_.timeout));
  if (request_.body) {
    set(curl, CURLOPT_POST, 1L);
    // Stays where it is. Never null, which would mean: read the standard input.
    set(curl, CURLOPT_POSTFIELDS, request_.body->empty() ? "" : request_.body->text().data());
    set(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body->size()));
  }
}

void Transfer::set_up_download() {
  CURL* const curl = handle_.get();
  const Download& download = *request_.download;
  set(curl, CURLOPT_URL, download.url.c_str());
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  if (!download.uses_proxy) set(curl, CURLOPT_PROXY, "");
  set(curl, CURLOPT_BUFFERSIZE, kDownloadBufferBytes);
  set(curl, CURLOPT_LOW_SPEED_LIMIT, kDownloadRateMin);
  set(curl, CURLOPT_LOW_SPEED_TIME, std::max(1L, milliseconds(download.stall_timeout) / 1000));
}

void Transfer::set_up_headers() {
  append(headers_, "Expect:");  // no round trip before the body
  for (const Header& header : request_.headers) append(headers_, header.name + ": " + header.value);
  set(handle_.get(), CURLOPT_HTTPHEADER, headers_.get());
}

bool Transfer::on_header(std::size_t bytes) {
  header_bytes_ += bytes;
  return header_bytes_ <= kReplyHeadBytesMax;
}

bool Transfer::on_body(std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  if (request_.download) return on_file_bytes(bytes);
  try {
    is_too_large_ = bytes.size() > request_.bytes_max - received_ ||
                    bytes.size() > replies_bytes_max_ - replies_bytes_ ||
                    !make_room(received_ + bytes.size());
  } catch (const std::bad_alloc&) {
    is_out_of_memory_ = true;  // libcurl is C: nothing may be thrown through it
  }
  if (is_too_large_ || is_out_of_memory_) return false;
  std::memcpy(reply_.mutable_bytes().data() + received_, bytes.data(), bytes.size());
  received_ += bytes.size();
  replies_bytes_ += bytes.size();
  return true;
}

/// The length that the server declares is taken as a hint: it may lie.
bool Transfer::make_room(std::size_t size) {
  if (size <= reply_.size()) return true;
  curl_off_t declared = -1;
  curl_easy_getinfo(handle_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &declared);
  if (declared > 0 && static_cast<std::uint64_t>(declared) > request_.bytes_max) return false;
  const std::size_t hint = declared > 0 ? static_cast<std::size_t>(declared) : kFirstRoom;
  const std::size_t grown = std::max({size, hint, reply_.size() * 2});
  BufferRef larger = BufferRef::allocate(std::min(grown, request_.bytes_max));
  if (received_ > 0) std::memcpy(larger.mutable_bytes().data(), reply_.bytes().data(), received_);
  reply_ = std::move(larger);
  return true;
}

Outcome Transfer::outcome(CURLcode code) {
  if (request_.download) return download_outcome(code);
  Outcome outcome{.answer = Answer{}, .bytes_received = received_};
  curl_off_t sent = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_SIZE_UPLOAD_T, &sent);
  outcome.bytes_sent = static_cast<std::uint64_t>(std::max<curl_off_t>(0, sent));
  const std::string where = request_.endpoint.text();
  if (is_out_of_memory_) {
    outcome.answer = fail(ErrorCode::busy, {}, "out of memory");
    return outcome;
  }
  if (is_too_large_) {
    outcome.answer = fail(ErrorCode::no_space, where,
                          "the reply is larger than " + std::to_string(request_.bytes_max) +
                              " bytes, or than what all replies may take");
    return outcome;
  }
  if (code != CURLE_OK) {
    const char* const why = error_text_[0] != '\0' ? error_text_.data() : curl_easy_strerror(code);
    outcome.answer = fail(ErrorCode::io, where, echo(why));
    return outcome;
  }
  long status = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
  outcome.answer = Answer{static_cast<int>(status), reply_.slice(0, received_)};
  return outcome;
}

}  // namespace tenzro::http
