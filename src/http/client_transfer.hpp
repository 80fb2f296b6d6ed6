#pragma once
/// \file
/// Transfer: one request of the client as libcurl's handle, and the reply as it arrives.
///
/// Thread: the client's. The handle points at the transfer, which does not move.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <curl/curl.h>

#include "tenzro/http/client.hpp"
#include "tenzro/http/endpoint.hpp"

namespace tenzro::http {

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }

  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

/// CURL and CURLM are the same type, void.
struct CurlMultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

using CurlHandle = std::unique_ptr<CURL, CurlDeleter>;
using CurlMulti = std::unique_ptr<CURLM, CurlMultiDeleter>;
using CurlHeaders = std::unique_ptr<curl_slist, CurlDeleter>;

/// Bytes a second; a download that is slower for as long as its stall_timeout is broken off.
inline constexpr long kDownloadRateMin = 1024;

/// A request whose endpoint was checked, or a download.
struct ClientRequest {
  Endpoint endpoint;
  std::string path;
  std::vector<Header> headers;
  /// Of a POST; absent: a GET.
  std::optional<BufferRef> body;
  std::string range;  ///< "first-last"; empty: none
  std::size_t bytes_max = 0;
  Duration timeout{0};
  std::optional<Download> download = std::nullopt;
};

struct Outcome {
  Result<Answer> answer;
  Downloaded downloaded = {};  ///< of a download, whose `answer` is not used
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

class Transfer {
 public:
  /// `replies_bytes` counts what all transfers of the client hold.
  Transfer(ClientRequest request, CallRef call, const ClientOptions& options,
           std::size_t& replies_bytes);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  [[nodiscard]] CURL* handle() const { return handle_.get(); }

  [[nodiscard]] CallRef call() const { return call_; }

  /// Once libcurl says that it is over.
  [[nodiscard]] Outcome outcome(CURLcode code);

  // What libcurl calls; false breaks off.
  bool on_header(std::size_t bytes);
  bool on_body(std::span<const std::byte> bytes);

 private:
  void set_up(const ClientOptions& options);
  void set_up_request();
  void set_up_download();
  void set_up_headers();
  [[nodiscard]] bool make_room(std::size_t size);
  // client_download.cpp
  [[nodiscard]] bool on_file_bytes(std::span<const std::byte> bytes);
  [[nodiscard]] bool begins_as_asked();
  [[nodiscard]] Outcome download_outcome(CURLcode code);
  [[nodiscard]] std::string_view header_of(const char* name) const;

  ClientRequest request_;
  CallRef call_;
  std::size_t replies_bytes_max_;
  std::size_t& replies_bytes_;
  CurlHandle handle_;
  CurlHeaders headers_;
  std::array<char, CURL_ERROR_SIZE> error_text_{};
  std::size_t header_bytes_ = 0;
  BufferRef reply_;  ///< its first `received_` bytes are the reply's
  std::size_t received_ = 0;
  std::size_t passed_over_ = 0;  ///< bytes of a reply that is not the file
  bool is_too_large_ = false;
  bool is_out_of_memory_ = false;
};

}  // namespace tenzro::http
