#include "downloader.hpp"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "tenzro/base/url.hpp"
#include "tenzro/crypto/http_signature.hpp"

#include "unix_time.hpp"

namespace tenzro::daemon {
namespace {

/// The path of "http://host:port/path".
std::string path_of(const std::string& url) {
  const std::size_t host = url.find("://");
  const std::size_t path = host == std::string::npos ? host : url.find('/', host + 3);
  return path == std::string::npos ? "/" : url.substr(path);
}

bool is_loopback_url(const std::string& text) {
  const auto url = parse_url(text);
  return url && is_loopback_host(url->host);
}

}  // namespace

std::string checked_token(std::string token) {
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool is_good =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (is_good) return token;
  spdlog::warn("the hub's token in the environment holds characters that no token has: not used");
  return {};
}

Downloader::Downloader(http::Client& client, const crypto::KeyPair& key, std::string hub_token,
                       Done done)
    : client_(client), key_(key), hub_token_(std::move(hub_token)), done_(std::move(done)) {}

Downloader::~Downloader() {
  for (const auto& [id, call] : calls_) client_.cancel(call);
}

std::vector<http::Header> Downloader::headers_for(const work::Download& download) const {
  switch (download.credential) {
    case work::Credential::none:
      return {};
    case work::Credential::hub_token:
      if (hub_token_.empty()) return {};
      return {{"Authorization", "Bearer " + hub_token_}};
    case work::Credential::node_signature: {
      const std::string path = path_of(download.url);
      crypto::HttpSignature made = crypto::sign_http(key_, {"GET", path, {}}, unix_seconds());
      return {{"X-Tenzro-Node", std::move(made.node)},
              {"X-Tenzro-Time", std::move(made.time)},
              {"X-Tenzro-Signature", std::move(made.signature)}};
    }
  }
  return {};
}

void Downloader::download(work::Download download) {
  const PeerCallId id = download.id;
  const bool is_peer = download.credential == work::Credential::node_signature;
  http::Download request{.url = download.url,
                         .headers = headers_for(download),
                         .offset = download.offset,
                         .buffer = std::move(download.buffer),
                         .room = download.room,
                         .uses_proxy = !is_peer && !is_loopback_url(download.url)};
  const http::CallRef call =
      client_.download(std::move(request), [this, id](const work::Downloaded& downloaded) {
        if (calls_.erase(id) != 0) done_(id, downloaded);
      });
  calls_.emplace(id, call);
}

void Downloader::cancel(PeerCallId call) {
  const auto waiting = calls_.extract(call);
  if (waiting) client_.cancel(waiting.mapped());
}

}  // namespace tenzro::daemon
