#pragma once
/// \file
/// Handler: what the HTTP server asks of the rest of the node.
///
/// Each request has an id, unique for the life of the server. The server announces it with one of
/// on_rpc, on_page, on_blob or on_put_begun; it ends either when the node answers
/// (`Server::reply`, or the last piece of a blob) or with on_request_gone, and never with both.
/// A call of `Server` that names an ended request does nothing: the client may leave at any moment.
///
/// Uploads: on_put_begun, then one on_put_piece each time `Server::put_continue` asks for more,
/// then on_put_ended, after which the node replies. Until put_continue is called nothing is read,
/// so the client waits for the disk (back-pressure). A reply before the end refuses the rest.
///
/// Downloads: the node answers on_blob with `Server::serve_blob(size)`; the server resolves Range
/// and HEAD itself and asks with on_blob_piece_wanted for one piece at a time, which
/// `Server::send_piece` gives.
///
/// Thread: every function is called on the loop's thread, and may call `Server` at once.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/http/token_table.hpp"

namespace tenzro::http {

/// One request on a connection. Unique for the life of the server.
enum class RequestRef : std::uint64_t {};

enum class Page : std::uint8_t { metrics, healthz, readyz };

/// The headers with which another node signs a request, as they were sent and not yet verified.
struct NodeSignature {
  std::string node;       ///< X-Tenzro-Node
  std::string time;       ///< X-Tenzro-Time
  std::string signature;  ///< X-Tenzro-Signature
  /// Path of the request, which the signature covers.
  std::string path;
};

struct Caller {
  /// Of the bearer token; all where no tokens are configured, none where none was shown.
  Scopes scopes;
  bool is_loopback = false;
  /// Name of the token's entry; empty without one.
  std::string token_name;
  std::optional<NodeSignature> node;
};

class Handler {
 public:
  virtual ~Handler() = default;

  /// A complete JSON-RPC body, for which the token check decides nothing yet.
  virtual void on_rpc(RequestRef id, BufferRef body, const Caller& caller) = 0;
  /// A page to be answered with `Server::reply`.
  virtual void on_page(RequestRef id, Page page) = 0;
  /// `GET` or `HEAD /blob/<hash>`. The node decides whether this caller may have it.
  virtual void on_blob(RequestRef id, const BlobHash& hash, const Caller& caller) = 0;
  /// The next `size` bytes from `offset` of a blob that serve_blob began.
  virtual void on_blob_piece_wanted(RequestRef id, const BlobHash& hash, std::uint64_t offset,
                                    std::size_t size) = 0;
  /// `PUT /blob` of a caller with the admin scope; `size` where the client says it.
  virtual void on_put_begun(RequestRef id, std::optional<std::uint64_t> size) = 0;
  virtual void on_put_piece(RequestRef id, BufferRef piece) = 0;
  virtual void on_put_ended(RequestRef id) = 0;
  /// The client left, or was refused, before the request was answered.
  virtual void on_request_gone(RequestRef id) = 0;
};

}  // namespace tenzro::http
