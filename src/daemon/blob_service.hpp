#pragma once
/// \file
/// `GET /blob/<hash>` and `PUT /blob`: bytes between the HTTP server and the store, a piece at a
/// time.
///
/// Thread: the loop's; the store's answers come back by post.
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "tenzro/exec/loop.hpp"
#include "tenzro/http/handler.hpp"
#include "tenzro/http/server.hpp"
#include "tenzro/store/store.hpp"

namespace tenzro::daemon {

class BlobService {
 public:
  /// Whether another node may have blobs.
  using MayFetch = std::function<bool(const EndpointId&)>;

  BlobService(exec::Loop& loop, store::Store& store, MayFetch may_fetch);
  ~BlobService();
  BlobService(const BlobService&) = delete;
  BlobService& operator=(const BlobService&) = delete;

  void set_server(http::Server* server) { server_ = server; }

  void on_get(http::RequestRef ref, const BlobHash& hash, const http::Caller& caller);
  void on_piece_wanted(http::RequestRef ref, const BlobHash& hash, std::uint64_t offset,
                       std::size_t size);
  void on_put_begun(http::RequestRef ref, std::optional<std::uint64_t> size);
  void on_put_piece(http::RequestRef ref, BufferRef piece);
  void on_put_ended(http::RequestRef ref);
  void on_gone(http::RequestRef ref);

 private:
  void begin_answer(http::RequestRef ref, const Result<std::uint64_t>& size);
  void send_piece(http::RequestRef ref, const Result<BufferRef>& piece);
  void on_piece_kept(http::RequestRef ref, const Status& status);
  void answer_put(http::RequestRef ref, const Result<work::Published>& published);
  /// By its scope, or as a node that signed the request and may.
  [[nodiscard]] bool may_read(const http::Caller& caller) const;
  void refuse(http::RequestRef ref, const Error& error);
  /// As for pages: 401 without a known token, 403 with one that does not suffice.
  void refuse_scope(http::RequestRef ref, const http::Caller& caller);
  /// Runs `task` on the loop, later, unless this service is gone by then. Any thread.
  void post(std::function<void()> task);

  exec::Loop& loop_;
  store::Store& store_;
  MayFetch may_fetch_;
  http::Server* server_ = nullptr;
  std::map<http::RequestRef, std::shared_ptr<store::Upload>> uploads_;
  std::shared_ptr<bool> alive_;
};

}  // namespace tenzro::daemon
