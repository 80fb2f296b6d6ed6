#pragma once
/// \file
/// JSON-RPC bodies to node calls and back: parse, ask the node, encode.
///
/// Bodies and answers above `kInlineBytesMax` are parsed and encoded on the pool, so that the loop
/// stays free. Answers count against `answers_bytes_max`, by about what they take as JSON, from
/// when they are there until they are sent: where much is not read, large answers become `busy`.
/// Thread: the loop's.
#include <map>
#include <memory>

#include "tenzro/http/byte_budget.hpp"
#include "tenzro/http/handler.hpp"
#include "tenzro/http/server.hpp"
#include "tenzro/rpc/exchange.hpp"

#include "node_shell.hpp"

namespace tenzro::daemon {

inline constexpr std::size_t kInlineBytesMax = 16UL << 10U;

class RpcService {
 public:
  struct Options {
    std::size_t batch_max = 100;
    /// Of all callers together; also the most that one reply may take.
    std::size_t answers_bytes_max = 1UL << 30U;
    Base64Kernels base64;
    /// Execution for callers from other machines that show no token; loopback callers always may.
    bool executes_for_anyone = false;
  };

  RpcService(const Options& options, const Workshop& workshop, NodeShell& shell);
  ~RpcService();
  RpcService(const RpcService&) = delete;
  RpcService& operator=(const RpcService&) = delete;

  /// The server that answers are given to; before any body comes in.
  void set_server(http::Server* server) { server_ = server; }

  void on_body(http::RequestRef ref, BufferRef body, const http::Caller& caller);
  void on_gone(http::RequestRef ref);

  /// Of answers that are not sent yet.
  [[nodiscard]] std::size_t answers_bytes() const { return answers_->used(); }

 private:
  /// What a conversation holds of the budget for answers, until its reply is sent.
  using Held = std::shared_ptr<http::Reservation>;

  struct Conversation {
    rpc::Exchange exchange;
    Held held;
    std::map<std::size_t, RequestId> calls;
    bool is_large = false;
    /// While calls are being handed to the node: answers that come at once do not end the
    /// conversation.
    bool is_starting = false;
  };

  /// The signature to check before a caller may execute: of an endpoint that the rule admits.
  [[nodiscard]] std::optional<http::NodeSignature> signature_to_check(
      const http::Caller& caller) const;
  [[nodiscard]] Held make_held() const;
  /// Keeps the outcome, or that there is no room for it.
  void keep(Conversation& conversation, std::size_t index, Result<rpc::Answer> outcome);
  void begin(http::RequestRef ref, rpc::Exchange exchange, bool is_large);
  void ask(http::RequestRef ref, std::size_t index, rpc::Call call);
  void finish(http::RequestRef ref);
  void send(http::RequestRef ref, BufferRef body, Held held);
  void refuse_busy(http::RequestRef ref, const Error& error);

  Options options_;
  Workshop workshop_;
  NodeShell& shell_;
  http::Server* server_ = nullptr;
  std::map<http::RequestRef, Conversation> conversations_;
  /// Outlives this: replies that the server still sends hold some of it.
  std::shared_ptr<http::ByteBudget> answers_;
  std::shared_ptr<bool> alive_;
};

}  // namespace tenzro::daemon
