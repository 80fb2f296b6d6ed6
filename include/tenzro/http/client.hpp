#pragma once
/// \file
/// Client: requests to other nodes' HTTP servers, on a thread of its own.
///
/// Rules
///  - A call is answered once, by its callback on the loop's thread, unless it is cancelled first
///  or
///    the client is gone: then never. The callback never runs inside the function that began the
///    call.
///  - Any status is an answer; the caller reads it. Errors: invalid_params (the endpoint is not
///  one),
///    busy (`calls_max` calls are under way), no_space (the reply is larger than allowed), io
///    (cannot be reached, breaks off, is no HTTP, takes too long).
///  - No redirects, cookies, proxies, or decoding of contents. Why: the address is a peer's word,
///  and
///    what it answers may not send this node anywhere else. Certificates of https are checked
///    against the system's authorities.
///  - A download (GET of a part of a file, on the wider web) is given room for its bytes and always
///  tells what came, a broken-off one too; so that whoever asked can go on where it stopped. It may
///  go through the proxy that the environment names, never to this machine itself. It ends where
///  less than 1 KiB a second comes for `stall_timeout`, however long the whole takes.
///  - A reply fills memory as its bytes arrive: at most `bytes_max` one, `replies_bytes_max` all.
///    Connections are kept and shared by the calls to one endpoint.
///  - A cancelled call's connection ends, so that the server sees it.
/// Cost: O(log n) a call on the loop's thread; the bytes are moved on the client's. Thread: the
/// loop's only.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/exec/loop.hpp"
#include "tenzro/http/server.hpp"
#include "tenzro/work/download.hpp"

namespace tenzro::http {

/// One call, unique for the life of the client.
enum class CallRef : std::uint64_t {};

struct ClientOptions {
  std::size_t calls_max = 256;
  /// All replies being received together; a call that would exceed it fails with no_space.
  std::size_t replies_bytes_max = 512UL << 20U;
  std::size_t connections_max = 256;
  std::size_t connections_per_host_max = 32;
  Duration connect_timeout = std::chrono::seconds(5);
};

/// Header names and values hold no line breaks. `path` begins with a slash and is percent-encoded.
struct Post {
  std::string endpoint;  ///< as Endpoint::parse reads it
  std::string path = "/";
  std::vector<Header> headers;
  BufferRef body;
  std::size_t bytes_max = 64UL << 20U;  ///< of the reply
  /// From here to the reply's last byte.
  Duration timeout = std::chrono::seconds(60);
};

/// GET of the bytes [offset, offset + size) of a resource; `size` > 0. A server that does not know
/// Range answers with another status than 206, and with more than was asked for: no_space.
struct RangedGet {
  std::string endpoint;
  std::string path = "/";
  std::vector<Header> headers;
  std::uint64_t offset = 0;
  std::size_t size = 0;
  Duration timeout = std::chrono::seconds(60);
};

/// GET of the bytes [offset, offset + room.size()) of the file at `url`; `room` is not empty, lies
/// in `buffer`, and is the client's until the answer.
struct Download {
  std::string url;  ///< http:// or https://
  std::vector<Header> headers;
  std::uint64_t offset = 0;
  BufferRef buffer;
  std::span<std::byte> room;
  bool uses_proxy = true;
  Duration stall_timeout = std::chrono::seconds(30);
};

/// See work::Downloaded, whose members these are.
using work::Downloaded;

struct Answer {
  int status = 0;
  BufferRef body;
};

/// Counters since the start, for the metrics page.
struct ClientStats {
  std::uint64_t calls = 0;
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t in_progress = 0;
  /// Bodies, of calls that were answered or failed.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

class Client {
 public:
  using Done = std::function<void(Result<Answer>)>;
  using DownloadDone = std::function<void(Downloaded)>;

  /// `loop` outlives the client.
  explicit Client(exec::Loop& loop, const ClientOptions& options = {});
  /// Breaks off every call; no callback follows.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  CallRef post(Post post, Done done);
  CallRef get(RangedGet get, Done done);
  CallRef download(Download download, DownloadDone done);
  /// Nothing where the call is over.
  void cancel(CallRef call);

  [[nodiscard]] ClientStats stats() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tenzro::http
