#include "demo_pass.hpp"

#include <chrono>
#include <cmath>
#include <cstring>
#include <set>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/bytes.hpp"

namespace tenzro::cli {
namespace {

using Clock = std::chrono::steady_clock;

double relative_l2(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = double{got[i]} - double{want[i]};
    difference += d * d;
    norm += double{want[i]} * double{want[i]};
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

std::optional<std::vector<float>> outputs_of(const Json& result, std::size_t count) {
  const Json& outputs = member(result, "outputs");
  if (!outputs.is_string()) return std::nullopt;
  const std::string& base64 = outputs.get_ref<const std::string&>();
  if (base64_decoded_size(base64) != count * sizeof(float)) return std::nullopt;
  std::vector<float> values(count);
  void* const raw = values.data();
  if (!base64_decode(base64, static_cast<std::uint8_t*>(raw))) return std::nullopt;
  return values;
}

/// Compares the routed slots with the traced ids, token by token, as sets.
void compare_routes(const Json& result, const TracedPass& pass, ServedPass& served) {
  std::set<std::uint64_t> used;
  std::size_t token = 0;
  for (const Json& routed : list(result, "routed")) {
    std::set<std::uint64_t> ids;
    for (const Json& slot : list(routed, "slots")) {
      const auto expert = number(slot, "expert");
      if (!expert) continue;
      used.insert(*expert);
      ids.insert(*expert);
    }
    for (std::size_t k = 0; k < pass.top_k && token < pass.tokens; ++k) {
      const std::int32_t traced = pass.expert_ids[token * pass.top_k + k];
      if (traced < 0 || !ids.contains(static_cast<std::uint64_t>(traced)))
        served.has_traced_ids = false;
    }
    ++token;
  }
  if (token != pass.tokens) served.has_traced_ids = false;
  served.experts_used = used.size();
}

}  // namespace

Outcome<ServedPass> serve_pass(Node& node, const std::string& model, const TracedPass& pass) {
  const auto bytes = as_u8(std::as_bytes(std::span(pass.input)));
  const Request request{.method = "tenzro_moeForward",
                        .params = {{"model_id", model},
                                   {"layer", pass.layer},
                                   {"d_model", pass.d_model},
                                   {"hidden_states", base64_encode(bytes)}}};
  const Clock::time_point begin = Clock::now();
  const auto result = node.call(request);
  if (!result) return failure(result.error());
  ServedPass served;
  served.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  auto outputs = outputs_of(*result, pass.output.size());
  if (!outputs) return failure(ExitCode::refused, "the node's answer has no readable outputs");
  served.outputs = std::move(*outputs);
  served.relative_error = relative_l2(served.outputs, pass.output);
  served.batches_remote = number(member(*result, "transports"), "iroh").value_or(0);
  served.replans = number(*result, "replans").value_or(0);
  compare_routes(*result, pass, served);
  return served;
}

bool has_same_bits(const ServedPass& a, const ServedPass& b) {
  return a.outputs.size() == b.outputs.size() &&
         std::memcmp(a.outputs.data(), b.outputs.data(), a.outputs.size() * sizeof(float)) == 0;
}

}  // namespace tenzro::cli
