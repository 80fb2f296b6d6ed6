#include "blob_service.hpp"

#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/http_signature.hpp"
#include "tenzro/rpc/exchange.hpp"
#include "tenzro/wire/uri.hpp"

#include "unix_time.hpp"

namespace tenzro::daemon {
namespace {

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::forbidden:
      return 403;
    case ErrorCode::invalid_params:
      return 400;
    case ErrorCode::busy:
      return 503;
    case ErrorCode::no_space:
      return 507;
    default:
      return 500;
  }
}

}  // namespace

BlobService::BlobService(exec::Loop& loop, store::Store& store, MayFetch may_fetch)
    : loop_(loop),
      store_(store),
      may_fetch_(std::move(may_fetch)),
      alive_(std::make_shared<bool>(true)) {}

BlobService::~BlobService() {
  *alive_ = false;
}

void BlobService::post(std::function<void()> task) {
  loop_.post([alive = alive_, task = std::move(task)] {
    if (*alive) task();
  });
}

bool BlobService::may_read(const http::Caller& caller) const {
  if (caller.scopes.read || !caller.node) return caller.scopes.read;
  const http::NodeSignature& signature = *caller.node;
  const auto signer = crypto::verify_http({signature.node, signature.time, signature.signature},
                                          {"GET", signature.path, {}}, unix_seconds());
  return signer && may_fetch_(*signer);
}

void BlobService::on_get(http::RequestRef ref, const BlobHash& hash, const http::Caller& caller) {
  if (!may_read(caller)) {
    refuse_scope(ref, caller);
    return;
  }
  // The server ignores an answer to a request that has ended meanwhile.
  store_.stat_blob(hash, [this, ref](Result<std::uint64_t> size) {
    post([this, ref, size = std::move(size)] { begin_answer(ref, size); });
  });
}

void BlobService::begin_answer(http::RequestRef ref, const Result<std::uint64_t>& size) {
  if (size) {
    server_->serve_blob(ref, *size);
  } else {
    refuse(ref, size.error());
  }
}

void BlobService::on_piece_wanted(http::RequestRef ref, const BlobHash& hash, std::uint64_t offset,
                                  std::size_t size) {
  store_.read_range(hash, offset, size, [this, ref](Result<BufferRef> piece) {
    post([this, ref, piece = std::move(piece)] { send_piece(ref, piece); });
  });
}

void BlobService::send_piece(http::RequestRef ref, const Result<BufferRef>& piece) {
  if (piece) {
    server_->send_piece(ref, *piece);
  } else {
    server_->abort_blob(ref);
  }
}

void BlobService::on_put_begun(http::RequestRef ref, std::optional<std::uint64_t> size) {
  auto upload = store_.begin_upload(size);
  if (!upload) {
    refuse(ref, upload.error());
    return;
  }
  uploads_.emplace(ref, std::move(*upload));
  server_->put_continue(ref);
}

void BlobService::on_put_piece(http::RequestRef ref, BufferRef piece) {
  const auto it = uploads_.find(ref);
  if (it == uploads_.end()) return;
  store_.append(it->second, std::move(piece), [this, ref](Status status) {
    post([this, ref, status = std::move(status)] { on_piece_kept(ref, status); });
  });
}

void BlobService::on_piece_kept(http::RequestRef ref, const Status& status) {
  if (!uploads_.contains(ref)) return;
  if (status) {
    server_->put_continue(ref);
  } else {
    refuse(ref, status.error());
  }
}

void BlobService::on_put_ended(http::RequestRef ref) {
  const auto upload = uploads_.extract(ref);
  if (!upload) return;
  store_.finish(upload.mapped(), [this, ref](Result<work::Published> published) {
    post([this, ref, published = std::move(published)] { answer_put(ref, published); });
  });
}

void BlobService::answer_put(http::RequestRef ref, const Result<work::Published>& published) {
  if (!published) {
    refuse(ref, published.error());
    return;
  }
  const nlohmann::json answer{{"tenzro_uri", wire::format_blob_uri(published->hash)},
                              {"blake3_hex", to_hex(published->hash)},
                              {"size_bytes", published->size_bytes}};
  server_->reply(ref, {.status = 201,
                       .content_type = "application/json",
                       .body = BufferRef::copy_of(answer.dump())});
}

void BlobService::on_gone(http::RequestRef ref) {
  uploads_.erase(ref);
}

void BlobService::refuse_scope(http::RequestRef ref, const http::Caller& caller) {
  if (!caller.token_name.empty()) {
    refuse(ref, {ErrorCode::forbidden, "", "this token lacks the read scope"});
    return;
  }
  const Error error{ErrorCode::forbidden, "", "a bearer token with the read scope is needed"};
  server_->reply(ref, {.status = 401,
                       .content_type = "application/json",
                       .body = BufferRef::copy_of(rpc::error_reply(error)),
                       .headers = {{.name = "WWW-Authenticate", .value = "Bearer"}}});
}

void BlobService::refuse(http::RequestRef ref, const Error& error) {
  on_gone(ref);
  server_->reply(ref, {.status = http_status(error.code),
                       .content_type = "application/json",
                       .body = BufferRef::copy_of(rpc::error_reply(error))});
}

}  // namespace tenzro::daemon
