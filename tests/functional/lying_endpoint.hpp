#pragma once
/// \file
/// An endpoint of a holder that does not tell the truth: replies of tenzro/exec/1 are changed on
/// their way out, everything else passes.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/net/endpoint.hpp"
#include "tenzro/wire/exec_message.hpp"

namespace tenzro::testing {

enum class Lie : std::uint8_t {
  none,
  nan,             ///< the first value is not a number; signed
  flipped_sign,    ///< of one value; the receipt is that of the truth
  missing_expert,  ///< one expert less than asked for; signed
  extra_row,       ///< one row more than asked for; signed
  other_blob,      ///< says that other weights ran; signed
  foreign_key,     ///< signed by somebody else
  replay,          ///< the first reply, for every request
  truncated,       ///< half of the bytes
  garbled,         ///< bytes that are no message
  silent,          ///< no reply
};

/// "nan", "flipped_sign", ... ; none for any other word.
[[nodiscard]] Lie lie_from_name(std::string_view name);

class LyingEndpoint final : public net::Endpoint, public net::Handler {
 public:
  [[nodiscard]] static Result<std::unique_ptr<net::Endpoint>> listen(
      exec::Loop& loop, const crypto::KeyPair& identity, const net::Options& options,
      net::Handler& handler, Lie lie);

  LyingEndpoint(const crypto::KeyPair& identity, net::Handler& handler, Lie lie)
      : identity_(identity), handler_(handler), lie_(lie) {}

  void on_reply(PeerCallId call, Result<net::Reply> reply) override {
    handler_.on_reply(call, std::move(reply));
  }

  void on_request(net::Request request) override;
  void on_request_cancelled(PeerRequestId request) override;
  void reply(PeerRequestId request, std::vector<BufferRef> reply) override;
  void refuse(PeerRequestId request) override;

  [[nodiscard]] std::string address() const override { return real_->address(); }

  void call(PeerCallId call, const net::Target& target, wire::Protocol protocol,
            std::vector<BufferRef> request) override {
    real_->call(call, target, protocol, std::move(request));
  }

  void cancel(PeerCallId call) override { real_->cancel(call); }

  [[nodiscard]] std::size_t connections() const override { return real_->connections(); }

  [[nodiscard]] net::Totals totals() const override { return real_->totals(); }

  void close(std::function<void()> done) override { real_->close(std::move(done)); }

 private:
  struct Asked {
    wire::ExecRequest request;
    EndpointId router{};
  };

  [[nodiscard]] std::vector<BufferRef> changed(const Asked& asked, const BufferRef& truth);
  /// As a holder signs, whatever the rows are.
  void sign(const Asked& asked, wire::ExecReply& reply) const;

  const crypto::KeyPair& identity_;
  net::Handler& handler_;
  Lie lie_;
  std::unique_ptr<net::Endpoint> real_;
  std::map<PeerRequestId, Asked> asked_;
  BufferRef first_;
};

}  // namespace tenzro::testing
