#include "reply_head.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "tenzro/base/assert.hpp"

namespace tenzro::http {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    default:
      return "Unknown";
  }
}

void append_field(std::string& head, std::string_view name, std::string_view value) {
  TENZRO_ASSERT(name.find_first_of("\r\n:") == std::string_view::npos);
  TENZRO_ASSERT(value.find_first_of("\r\n") == std::string_view::npos);
  head.append(name).append(": ").append(value).append("\r\n");
}

/// IMF-fixdate, which names days and months in English whatever the locale.
std::string http_date() {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                                 kDays.at(static_cast<std::size_t>(utc.tm_wday)), utc.tm_mday,
                                 kMonths.at(static_cast<std::size_t>(utc.tm_mon)),
                                 utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace

std::string reply_head(const Reply& reply, std::uint64_t length, KeepAlive keep_alive) {
  std::string head;
  head.reserve(256);
  head.append("HTTP/1.1 ").append(std::to_string(reply.status)).append(" ");
  head.append(reason_of(reply.status)).append("\r\n");
  append_field(head, "Date", http_date());
  if (!reply.content_type.empty()) append_field(head, "Content-Type", reply.content_type);
  if (reply.status != 204) append_field(head, "Content-Length", std::to_string(length));
  for (const Header& header : reply.headers) append_field(head, header.name, header.value);
  append_field(head, "Connection", keep_alive == KeepAlive::yes ? "keep-alive" : "close");
  head.append("\r\n");
  return head;
}

}  // namespace tenzro::http
