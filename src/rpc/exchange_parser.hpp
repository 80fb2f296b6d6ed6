#pragma once
/// \file
/// From the text of a body to an Exchange: the envelope of JSON-RPC 2.0.
#include <optional>
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/rpc/exchange.hpp"

#include "json_node.hpp"
#include "method.hpp"

namespace tenzro::rpc {

class ExchangeParser {
 public:
  explicit ExchangeParser(const ParseOptions& options) : options_(&options) {
    exchange_.reply_bytes_max_ = options.reply_bytes_max;
  }

  [[nodiscard]] Exchange run(std::string_view body);

 private:
  void add_batch(const JsonNode& batch);
  void add_request(const JsonNode& node);
  [[nodiscard]] Result<Call> read_call(const JsonNode& request, Exchange::Item& item) const;
  [[nodiscard]] bool is_allowed(Scope scope) const;
  /// An error of the whole body, or of something that is no request.
  void add_refusal(Error error);

  const ParseOptions* options_;
  Exchange exchange_;
};

}  // namespace tenzro::rpc
