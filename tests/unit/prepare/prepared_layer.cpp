#include "unit/prepare/prepared_layer.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/routing/route.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "support/naive_layer.hpp"
#include "support/tensor_table.hpp"

namespace tenzro::testing {
namespace {

/// The blobs of one layer's experts.
struct Experts {
  std::vector<BufferRef> blobs;
  std::vector<wire::ExpertBlob> parsed;
  std::vector<compute::ExpertView> views;
};

Experts prepared_experts(const SourceFile& file, const prepare::Checkpoint& checkpoint,
                         LayerIndex layer, const FamilyCase& golden) {
  Experts experts;
  for (ExpertIndex e = 0; e < checkpoint.expert_ids(); ++e) {
    const auto blob = file.expert(checkpoint, layer, e);
    if (!blob) stop(blob.error().message());
    const std::vector<std::byte> expected = wire::make_expert_blob(golden.layer.experts.at(e));
    const auto bytes = blob->blob.bytes();
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()))
        << "expert " << e;
    experts.blobs.push_back(blob->blob);
    auto one = wire::parse_expert_blob(experts.blobs.back().bytes());
    if (!one) stop(one.error().message());
    experts.parsed.push_back(std::move(*one));
  }
  for (const wire::ExpertBlob& one : experts.parsed) experts.views.push_back(one.view);
  return experts;
}

}  // namespace

std::vector<float> forward_prepared(const SourceFile& file, const prepare::Checkpoint& checkpoint,
                                    LayerIndex layer, const FamilyCase& golden) {
  EXPECT_EQ(checkpoint.expert_ids(), golden.layer.experts.size());
  if (checkpoint.expert_ids() != golden.layer.experts.size()) return {};
  const auto gate_blob = file.gate(checkpoint, layer);
  if (!gate_blob) stop(gate_blob.error().message());
  const auto gate = wire::parse_gate_blob(gate_blob->blob.bytes());
  if (!gate) stop(gate.error().message());
  const Experts experts = prepared_experts(file, checkpoint, layer, golden);
  const routing::Router router(*gate);
  const auto routed = routing::route(
      router, {.logits = naive_logits(*gate, golden.hidden),
               .tokens = golden.tokens,
               .top_k = router.default_top_k().value_or(0),
               .token_ids = golden.token_ids,
               .shared_gate_logits = naive_shared_gate_logits(*gate, golden.hidden)});
  if (!routed) stop(routed.error().message());
  return naive_output({.gate = *gate, .experts = experts.views}, golden.hidden, *routed);
}

double relative_error(std::span<const float> got, std::span<const float> expected) {
  if (got.size() != expected.size()) return 1;
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::fabs(double{got[i]} - double{expected[i]}));
    largest = std::max(largest, std::fabs(double{expected[i]}));
  }
  return worst / largest;
}

}  // namespace tenzro::testing
