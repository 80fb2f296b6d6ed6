#pragma once
/// \file
/// A small web server on loopback that stands for a model hub: files of a folder, with Range, ETag
/// and whatever faults a test wants of it.
///
/// A path is the file of its last part, so that repositories and revisions may be named before it.
/// A thread a connection. `rule` is called for each request, one at a time, before it is answered.
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tenzro::testing {

class HubServer {
 public:
  struct Request {
    std::size_t number = 0;  ///< from 1, in order of arrival
    std::string path;
    std::string file;  ///< its last part
    std::optional<std::uint64_t> first;
    std::optional<std::uint64_t> last;
    std::map<std::string, std::string> headers;  ///< names in lower case
  };

  struct Answer {
    int status = 0;  ///< instead of the file; 0: the file
    std::vector<std::string> headers;
    std::string body;
    /// So many bytes of the body, then the connection ends.
    std::optional<std::uint64_t> cut_after;
    /// The body in small parts, with pauses between them.
    bool is_slow = false;
    std::optional<std::uint64_t> slow_bytes;  ///< of such a part
    bool ignores_range = false;
    /// Nothing at all until the server ends.
    bool is_silent = false;
  };

  using Rule = std::function<Answer(const Request&)>;

  explicit HubServer(std::string folder);
  ~HubServer();
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  /// "http://127.0.0.1:port"
  [[nodiscard]] std::string url() const;

  void set_rule(Rule rule);

  [[nodiscard]] std::vector<Request> requests() const;

  /// Bytes of bodies sent, by file.
  [[nodiscard]] std::map<std::string, std::uint64_t> bytes_sent() const;

 private:
  void serve();
  void talk(int peer);
  [[nodiscard]] bool answer(int peer, Request request);
  [[nodiscard]] bool send_file(int peer, const Request& request, const Answer& answer);
  [[nodiscard]] bool send_part(int peer, int file, std::uint64_t first, std::uint64_t length,
                               const Answer& answer, const std::string& name);

  std::string folder_;
  int fd_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  Rule rule_;
  std::vector<Request> requests_;
  std::map<std::string, std::uint64_t> bytes_sent_;
  std::vector<int> peers_;
  std::vector<std::thread> talks_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace tenzro::testing
