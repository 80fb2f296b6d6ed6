#include "layer_names.hpp"

#include <algorithm>

#include "pattern.hpp"

namespace tenzro::prepare {

std::vector<std::string> scan_prefixes(const Checkpoint& checkpoint, LayerIndex layer) {
  const Family& family = *checkpoint.family;
  std::vector<std::string> prefixes;
  if (layer >= checkpoint.layers && !family.mtp_prefix.empty()) {
    prefixes.push_back(filled(family.mtp_prefix, "{M}", layer - checkpoint.layers));
    return prefixes;
  }
  for (const std::string_view pattern : alternatives(family.prefixes)) {
    prefixes.push_back(filled(pattern, "{L}", layer));
  }
  return prefixes;
}

std::vector<std::string> value_names(const std::string& stem) {
  return {stem + ".weight", stem + ".weight_packed", stem + "_blocks", stem};
}

std::vector<std::string> companion_names(const std::string& stem) {
  return {stem + ".weight_scale_inv",  stem + ".scale",        stem + ".weight_scale",
          stem + ".weight_zero_point", stem + ".weight_g_idx", stem + "_scales",
          stem + "_scale_inv",         stem + "_bias",         stem + ".bias"};
}

LayerNames::LayerNames(const Checkpoint& checkpoint, LayerIndex layer, const HasTensor& has)
    : checkpoint_(checkpoint), has_(has) {
  const std::vector<std::string> prefixes = scan_prefixes(checkpoint, layer);
  prefix_ = prefixes.front();
  for (const std::string& prefix : prefixes) {
    if (!has(prefix + std::string(checkpoint.family->gate.router))) continue;
    prefix_ = prefix;
    break;
  }
}

std::optional<std::string> LayerNames::gate_tensor(std::string_view pattern) const {
  if (pattern.empty()) return std::nullopt;
  const auto names = alternatives(pattern);
  for (const std::string_view name : names) {
    if (has_(prefix_ + std::string(name))) return prefix_ + std::string(name);
  }
  return prefix_ + std::string(names.front());
}

bool LayerNames::has(std::string_view pattern) const {
  const auto name = gate_tensor(pattern);
  return name && has_(*name);
}

bool LayerNames::has_values(const std::string& stem) const {
  const auto names = value_names(stem);
  return std::any_of(names.begin(), names.end(), has_);
}

ExpertStems LayerNames::stems(const ExpertNames& names, ExpertIndex expert) const {
  const auto stem = [&](std::string_view pattern) {
    return pattern.empty() ? std::string() : prefix_ + filled(pattern, "{E}", expert);
  };
  const bool has_gate = checkpoint_.has_gate_projection() && !names.gate.empty();
  return {&names, has_gate ? stem(names.gate) : std::string(), stem(names.up), stem(names.down)};
}

ExpertStems LayerNames::expert(ExpertIndex expert) const {
  const Family& family = *checkpoint_.family;
  const auto all = expert < checkpoint_.num_experts ? family.experts : family.shared;
  // Forms may share a name: what stands where `up` is tells them apart, and only where it is
  // missing the others.
  for (const ExpertNames& names : all) {
    ExpertStems found = stems(names, expert);
    if (has_values(found.up)) return found;
  }
  for (const ExpertNames& names : all) {
    ExpertStems found = stems(names, expert);
    const bool has_gate = !found.gate.empty() && has_values(found.gate);
    if (has_gate || has_values(found.down)) return found;
  }
  return stems(all.front(), expert);
}

namespace {

/// Gathers names; the first that is missing is the error.
class Gathered {
 public:
  explicit Gathered(const HasTensor& has) : has_(has) {}

  void need(const std::optional<std::string>& name) {
    if (!name) return;
    if (has_(*name)) {
      names_.push_back(*name);
    } else if (missing_.empty()) {
      missing_ = *name;
    }
  }

  /// The values of a stem in the forms that are there, and what stands beside them.
  void need_stem(const std::string& stem, const std::string& usual) {
    const std::size_t before = names_.size();
    for (const std::string& name : value_names(stem)) {
      if (has_(name)) names_.push_back(name);
    }
    if (names_.size() == before) return need(usual);
    for (const std::string& name : companion_names(stem)) {
      if (has_(name)) names_.push_back(name);
    }
  }

  [[nodiscard]] Result<std::vector<std::string>> result() const {
    if (missing_.empty()) return names_;
    return fail(ErrorCode::runtime, missing_, "tensor '" + missing_ + "' is missing");
  }

 private:
  const HasTensor& has_;
  std::vector<std::string> names_;
  std::string missing_;
};

void gather_gate(const Checkpoint& checkpoint, LayerIndex layer, const LayerNames& names,
                 Gathered& to) {
  const GateNames& gate = checkpoint.family->gate;
  to.need(names.gate_tensor(gate.router));
  if (checkpoint.is_hash_routed(layer)) {
    to.need(names.gate_tensor(gate.table));
  } else if (!checkpoint.is_gguf || names.has(gate.bias)) {
    to.need(names.gate_tensor(gate.bias));
  }
  to.need(names.gate_tensor(gate.per_expert_scale));
  to.need(names.gate_tensor(gate.input_scale));
  if (checkpoint.router.shared_gate != wire::SharedGate::none) {
    to.need(names.gate_tensor(gate.shared_gate));
  }
  if (!checkpoint.is_latent()) return;
  for (const std::string_view pattern : {gate.latent_down, gate.latent_norm, gate.latent_up}) {
    to.need(names.gate_tensor(pattern));
  }
}

}  // namespace

Result<std::vector<std::string>> wanted_tensors(const Checkpoint& checkpoint, LayerIndex layer,
                                                std::span<const ExpertIndex> experts,
                                                bool include_gate, const HasTensor& has) {
  const LayerNames names(checkpoint, layer, has);
  Gathered gathered(has);
  if (include_gate) gather_gate(checkpoint, layer, names, gathered);
  for (const ExpertIndex expert : experts) {
    const ExpertStems stems = names.expert(expert);
    for (const std::string& stem : {stems.gate, stems.up, stems.down}) {
      if (stem.empty()) continue;
      gathered.need_stem(stem, stems.names->storage == Storage::each ? stem + ".weight" : stem);
      if (stems.names->has_biases) gathered.need(stem + "_bias");
    }
  }
  return gathered.result();
}

}  // namespace tenzro::prepare
