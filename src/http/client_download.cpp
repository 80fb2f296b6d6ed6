// Transfer: a part of a file on its way to where it is wanted.
#include <algorithm>
#include <cstring>

#include "tenzro/base/bytes.hpp"

#include "client_transfer.hpp"
#include "reply_facts.hpp"

namespace tenzro::http {
namespace {

constexpr long kOk = 200;
constexpr long kPartialContent = 206;
/// Of a reply that is no part of the file; so much is read to keep the connection.
constexpr std::size_t kPassedOverMax = 64UL << 10U;

long status_of(CURL* handle) {
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

std::optional<Duration> wait_of(CURL* handle, std::string_view rate_limit) {
  curl_off_t retry_after = 0;
  curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &retry_after);
  std::int64_t seconds = std::clamp<std::int64_t>(retry_after, 0, 86'400);
  const auto limit = parse_rate_limit(rate_limit);
  if (limit) seconds = std::max<std::int64_t>(seconds, *limit);
  if (seconds == 0 && !limit) return std::nullopt;
  return std::chrono::seconds(seconds);
}

/// What no second attempt changes.
bool is_lasting(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

}  // namespace

std::string_view Transfer::header_of(const char* name) const {
  curl_header* header = nullptr;
  const CURLHcode found = curl_easy_header(handle_.get(), name, 0, CURLH_HEADER, -1, &header);
  return found == CURLHE_OK ? std::string_view(header->value) : std::string_view();
}

/// The whole file serves as its beginning.
bool Transfer::begins_as_asked() {
  const long status = status_of(handle_.get());
  if (status == kOk) return request_.download->offset == 0;
  if (status != kPartialContent) return false;
  const auto range = parse_content_range(header_of("content-range"));
  return range && range->first == request_.download->offset;
}

bool Transfer::on_file_bytes(std::span<const std::byte> bytes) {
  if (received_ == 0 && !begins_as_asked()) {
    passed_over_ += bytes.size();
    return passed_over_ <= kPassedOverMax;
  }
  const std::span<std::byte> room = request_.download->room.subspan(received_);
  const std::size_t taken = std::min(room.size(), bytes.size());
  std::memcpy(room.data(), bytes.data(), taken);
  received_ += taken;
  return taken == bytes.size();  // a whole file, of which only the beginning is wanted, ends here
}

Outcome Transfer::download_outcome(CURLcode code) {
  CURL* const curl = handle_.get();
  Outcome outcome{.answer = Answer{}, .bytes_received = received_};
  Downloaded& downloaded = outcome.downloaded;
  downloaded.status = static_cast<int>(status_of(curl));
  downloaded.received = received_;
  downloaded.first = request_.download->offset;
  const auto range = parse_content_range(header_of("content-range"));
  curl_off_t length = -1;
  curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (range) {
    downloaded.file_bytes = range->file_bytes;
    downloaded.first = range->first.value_or(downloaded.first);
  } else if (downloaded.status == kOk && length >= 0) {
    downloaded.file_bytes = static_cast<std::uint64_t>(length);
  }
  const std::string_view etag = header_of("etag");
  downloaded.version = echo(etag.empty() ? header_of("last-modified") : etag);
  downloaded.commit = echo(header_of("x-repo-commit"));
  const char* location = nullptr;
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &location);
  if (location != nullptr) downloaded.location = location;
  std::string limits(header_of("ratelimit"));
  if (limits.empty()) {
    limits = "remaining=" + std::string(header_of("ratelimit-remaining")) +
             ",reset=" + std::string(header_of("ratelimit-reset"));
  }
  downloaded.wait = wait_of(curl, limits);
  const bool has_all = received_ == request_.download->room.size();
  const bool is_no_file = passed_over_ > 0;
  if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && (has_all || is_no_file))) {
    const char* const why = error_text_[0] != '\0' ? error_text_.data() : curl_easy_strerror(code);
    downloaded.failure = echo(why);
    downloaded.is_slow = code == CURLE_OPERATION_TIMEDOUT && downloaded.status != 0;
    if (downloaded.is_slow) {
      const auto seconds =
          std::chrono::duration_cast<std::chrono::seconds>(request_.download->stall_timeout);
      downloaded.failure = "less than " + std::to_string(kDownloadRateMin) +
                           " bytes a second came for " + std::to_string(seconds.count()) +
                           " seconds";
    }
    downloaded.is_final = is_lasting(code);
  }
  return outcome;
}

}  // namespace tenzro::http
