#pragma once
/// \file
/// Builders and shorthands of the rpc tests: bodies, calls, replies.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "tenzro/base/base64.hpp"
#include "tenzro/rpc/exchange.hpp"

namespace tenzro::rpc {

/// What a call is answered with where the test does not care.
inline Answer canned_answer() {
  return NodeDrainAnswer{.draining = true};
}

inline Exchange parse(std::string_view body, const ParseOptions& options = {}) {
  return Exchange::parse(BufferRef::copy_of(body), options);
}

/// Answers every open call and encodes.
inline BufferRef finish(Exchange& exchange) {
  for (std::size_t i = 0; i < exchange.size(); ++i) {
    if (exchange.take_call(i)) exchange.set_outcome(i, canned_answer());
  }
  return exchange.encode(scalar_base64_kernels());
}

/// The reply as JSON; a discarded value where nothing is sent.
inline nlohmann::json reply_to(std::string_view body, const ParseOptions& options = {}) {
  Exchange exchange = parse(body, options);
  const BufferRef reply = finish(exchange);
  return nlohmann::json::parse(reply.text(), nullptr, false);
}

inline std::string request(std::string_view method, std::string_view params) {
  return R"({"jsonrpc":"2.0","id":1,"method":")" + std::string(method) + R"(","params":)" +
         std::string(params) + '}';
}

/// `code: message` of the reply's error, or "ok".
inline std::string outcome_of(std::string_view body, const ParseOptions& options = {}) {
  const nlohmann::json reply = reply_to(body, options);
  if (!reply.is_object()) return "no reply object: " + reply.dump();
  if (!reply.contains("error")) return "ok";
  return std::to_string(reply["error"]["code"].get<int>()) + ": " +
         reply["error"]["message"].get<std::string>();
}

inline std::string outcome_of(std::string_view method, std::string_view params) {
  return outcome_of(request(method, params));
}

/// The call that a request becomes. Requires that it becomes one.
template <typename T>
T call_of(std::string_view method, std::string_view params, const ParseOptions& options = {}) {
  Exchange exchange = parse(request(method, params), options);
  std::optional<Call> call = exchange.take_call(0);
  if (!call || !std::holds_alternative<T>(*call)) {
    throw std::runtime_error(outcome_of(request(method, params), options));
  }
  return std::get<T>(*std::move(call));
}

inline std::string base64_of(std::span<const float> values) {
  return base64_encode({static_cast<const std::uint8_t*>(static_cast<const void*>(values.data())),
                        values.size() * sizeof(float)});
}

inline std::string base64_of(const std::vector<float>& values) {
  return base64_of(std::span<const float>(values));
}

inline std::string base64_of(const std::vector<std::uint8_t>& bytes) {
  return base64_encode(bytes);
}

inline std::vector<float> floats_of(const BufferRef& buffer) {
  const std::span<const float> all = buffer.as<float>();
  return {all.begin(), all.end()};
}

}  // namespace tenzro::rpc
