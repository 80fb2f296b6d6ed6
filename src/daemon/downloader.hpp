#pragma once
/// \file
/// Downloads of the node over the HTTP client: puts the credential on that the node names, and
/// hands what came back.
///
/// The hub's token is here alone: no action carries it and nothing logs it. A request that carries
/// a credential of this node to another node never goes through a proxy. Bound: the client's calls.
/// Thread: the loop's.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/http/client.hpp"
#include "tenzro/work/download.hpp"

namespace tenzro::daemon {

class Downloader {
 public:
  /// Called once a download, never within `download`, unless it is cancelled first.
  using Done = std::function<void(PeerCallId, const work::Downloaded&)>;

  /// All outlive the downloader. An empty token is none.
  Downloader(http::Client& client, const crypto::KeyPair& key, std::string hub_token, Done done);
  ~Downloader();
  Downloader(const Downloader&) = delete;
  Downloader& operator=(const Downloader&) = delete;

  void download(work::Download download);
  /// Nothing where it is no download, or over.
  void cancel(PeerCallId call);

 private:
  [[nodiscard]] std::vector<http::Header> headers_for(const work::Download& download) const;

  http::Client& client_;
  const crypto::KeyPair& key_;
  std::string hub_token_;
  Done done_;
  std::map<PeerCallId, http::CallRef> calls_;
};

/// What the environment says, without the line break that files end with; empty, with a warning,
/// where it cannot be a token.
[[nodiscard]] std::string checked_token(std::string token);

}  // namespace tenzro::daemon
