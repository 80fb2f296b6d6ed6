#include "tenzro/wire/provider_record.hpp"

#include <limits>

#include "held_layers.hpp"
#include "proto_bytes.hpp"
#include "record.pb.h"

namespace tenzro::wire {
namespace {

tl::unexpected<Error> refuse(const char* field, const char* why) {
  return fail(ErrorCode::invalid_params, std::string("record.") + field, why);
}

std::uint32_t pack(TypeTriple types) {
  return types.gate | static_cast<std::uint32_t>(types.up) << 8U |
         static_cast<std::uint32_t>(types.down) << 16U;
}

void encode_model(const ModelId& id, const HeldModel& layers, proto::ModelHoldings& out) {
  out.set_model_id(id);
  std::vector<std::uint8_t> held;
  std::vector<std::uint8_t> warm;
  std::size_t experts = 0;
  LayerIndex last_layer = 0;
  std::uint32_t run = 0;
  TypeTriple types;
  const auto end_run = [&] {
    if (run == 0) return;
    out.add_type_runs(run);
    out.add_type_runs(pack(types));
    run = 0;
  };
  for (const auto& [index, layer] : layers) {
    if (layer.empty()) continue;
    out.add_layer_gaps(index - last_layer);
    last_layer = index;
    out.add_held_sizes(append_held(layer, held));
    for (const auto& [expert, facts] : layer) {
      if (experts % 8 == 0) warm.push_back(0);
      if (facts.is_warm) warm.back() = static_cast<std::uint8_t>(warm.back() | 1U << (experts % 8));
      ++experts;
      if (facts.types != types) end_run();
      types = facts.types;
      ++run;
    }
  }
  end_run();
  out.set_held(to_text(held));
  out.set_warm(to_text(warm));
}

/// Hands out the types of held experts in order.
class TypeRuns {
 public:
  explicit TypeRuns(const proto::ModelHoldings& in) : in_(in) {}

  std::optional<TypeTriple> next() {
    if (left_ == 0) {
      if (at_ + 1 >= in_.type_runs_size()) return std::nullopt;
      left_ = in_.type_runs(at_);
      const std::uint32_t packed = in_.type_runs(at_ + 1);
      if (left_ == 0 || packed > 0xFFFFFFU) return std::nullopt;
      types_ = {static_cast<std::uint8_t>(packed), static_cast<std::uint8_t>(packed >> 8U),
                static_cast<std::uint8_t>(packed >> 16U)};
      at_ += 2;
    }
    --left_;
    return types_;
  }

  [[nodiscard]] bool is_at_end() const { return left_ == 0 && at_ == in_.type_runs_size(); }

 private:
  const proto::ModelHoldings& in_;
  int at_ = 0;
  std::uint32_t left_ = 0;
  TypeTriple types_;
};

/// One model's layers; `experts` counts what the whole record holds so far.
Result<HeldModel> decode_model(const proto::ModelHoldings& in, std::size_t& experts) {
  if (in.layer_gaps_size() == 0 || in.layer_gaps_size() != in.held_sizes_size())
    return refuse("models", "as many layers as sizes are needed");
  HeldModel model;
  TypeRuns runs(in);
  std::span<const std::uint8_t> held = as_u8(in.held());
  std::size_t in_model = 0;
  std::uint64_t layer = 0;
  for (int i = 0; i < in.layer_gaps_size(); ++i) {
    if (i > 0 && in.layer_gaps(i) == 0) return refuse("models", "layers do not ascend");
    layer += in.layer_gaps(i);
    if (layer > std::numeric_limits<LayerIndex>::max()) return refuse("models", "layer too large");
    const std::size_t size = in.held_sizes(i) / 2;
    if (size > held.size()) return refuse("models", "held experts are cut off");
    const auto list =
        read_held(held.first(size), in.held_sizes(i) % 2 == 1, kRecordHoldingsMax - experts);
    if (!list || list->empty()) return refuse("models", "held experts cannot be read");
    held = held.subspan(size);
    experts += list->size();
    HeldLayer& out = model[static_cast<LayerIndex>(layer)];
    for (const ExpertIndex expert : *list) {
      const auto types = runs.next();
      if (!types || in_model / 8 >= in.warm().size())
        return refuse("models", "residency or types are cut off");
      const auto bits = static_cast<std::uint8_t>(in.warm()[in_model / 8]);
      out.emplace_hint(out.end(), expert, HeldExpert{(bits >> (in_model % 8) & 1U) == 1, *types});
      ++in_model;
    }
  }
  if (!held.empty() || !runs.is_at_end() || in.warm().size() != (in_model + 7) / 8)
    return refuse("models", "there is more than the held experts need");
  return model;
}

bool is_text(const std::string& text) {
  if (text.size() > kRecordTextBytesMax || !is_valid_utf8(text)) return false;
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

Status decode_repair(const proto::Record& in, ProviderRecord& record) {
  if (in.has_repair_free_bytes()) record.repair_free_bytes = in.repair_free_bytes();
  if (in.repair_models_size() > static_cast<int>(kRecordRepairModelsMax))
    return refuse("repair_models", "too many");
  for (const std::string& id : in.repair_models()) {
    if (id.empty() || !is_text(id)) return refuse("repair_models", "not a model id");
    if (!record.repair_models.empty() && id <= *record.repair_models.rbegin())
      return refuse("repair_models", "do not ascend");
    record.repair_models.insert(id);
  }
  return {};
}

Status decode_head(const proto::Record& in, ProviderRecord& record) {
  if (!read_array(in.public_key(), record.public_key))
    return refuse("public_key", "must be 32 bytes");
  if (in.incarnation() > Version::kIncarnationMax || in.sequence() > Version::kSequenceMax)
    return refuse("version", "out of range");
  if (in.ttl_s() == 0 || in.ttl_s() > 86'400) return refuse("ttl_s", "out of range");
  if (in.addresses_size() > static_cast<int>(kRecordAddressesMax))
    return refuse("addresses", "too many");
  if (in.roles() > 0x7FU) return refuse("roles", "unknown role");
  for (const std::string* text : {&in.name(), &in.version(), &in.http_endpoint()}) {
    if (!is_text(*text)) return refuse("text", "too long, or not text");
  }
  record.version = {in.incarnation(), in.sequence()};
  record.wall_ms = in.wall_ms();
  record.ttl_s = in.ttl_s();
  record.name = in.name();
  record.software = in.version();
  record.features = in.features();
  for (const std::string& address : in.addresses()) {
    if (address.empty() || !is_text(address)) return refuse("addresses", "not an address");
    record.addresses.push_back(address);
  }
  record.http_endpoint = in.http_endpoint();
  record.roles = in.roles();
  record.price_per_input_token = in.price_per_input_token();
  record.minimum_price = in.minimum_price();
  record.has_gpu = in.moe_gpu();
  record.profiles = in.profiles();
  return {};
}

}  // namespace

std::size_t ProviderRecord::holdings() const {
  std::size_t count = 0;
  for (const auto& [id, layers] : models) {
    for (const auto& [index, layer] : layers) count += layer.size();
  }
  return count;
}

Result<std::vector<std::uint8_t>> encode_record(const ProviderRecord& record) {
  if (record.holdings() > kRecordHoldingsMax || record.models.size() > kRecordModelsMax ||
      record.repair_models.size() > kRecordRepairModelsMax)
    return fail(ErrorCode::no_space, "record", "too many holdings");
  proto::Record out;
  out.set_public_key(to_text(record.public_key));
  out.set_incarnation(record.version.incarnation);
  out.set_sequence(record.version.sequence);
  out.set_wall_ms(record.wall_ms);
  out.set_ttl_s(record.ttl_s);
  out.set_name(record.name);
  out.set_version(record.software);
  out.set_features(record.features);
  for (const std::string& address : record.addresses) out.add_addresses(address);
  out.set_http_endpoint(record.http_endpoint);
  out.set_roles(record.roles);
  out.set_price_per_input_token(record.price_per_input_token);
  out.set_minimum_price(record.minimum_price);
  out.set_moe_gpu(record.has_gpu);
  out.set_profiles(record.profiles);
  for (const auto& [id, layers] : record.models) {
    const bool is_empty = std::all_of(layers.begin(), layers.end(),
                                      [](const auto& layer) { return layer.second.empty(); });
    if (is_empty) continue;
    proto::ModelHoldings& holdings = *out.add_models();
    encode_model(id, layers, holdings);
    if (const auto bytes = record.expert_bytes.find(id); bytes != record.expert_bytes.end())
      holdings.set_expert_bytes(bytes->second);
  }
  if (record.repair_free_bytes) out.set_repair_free_bytes(*record.repair_free_bytes);
  for (const ModelId& id : record.repair_models) out.add_repair_models(id);
  if (record.manifest_root) out.set_manifest_root(to_text(*record.manifest_root));
  if (out.ByteSizeLong() > kRecordBytesMax - kSignatureBytes)
    return fail(ErrorCode::no_space, "record", "too large");
  return serialize(out);
}

Result<ProviderRecord> decode_record(std::span<const std::uint8_t> body) {
  if (body.size() > kRecordBytesMax - kSignatureBytes) return refuse("size", "too large");
  proto::Record in;
  if (!parse_flat(in, body)) return refuse("bytes", "cannot be read");
  ProviderRecord record;
  if (auto status = decode_head(in, record); !status) return fail(status.error());
  if (auto status = decode_repair(in, record); !status) return fail(status.error());
  if (in.models_size() > static_cast<int>(kRecordModelsMax)) return refuse("models", "too many");
  std::size_t experts = 0;
  for (const proto::ModelHoldings& holdings : in.models()) {
    const std::string& id = holdings.model_id();
    if (id.empty() || !is_text(id)) return refuse("model_id", "not a model id");
    auto model = decode_model(holdings, experts);
    if (!model) return fail(model.error());
    if (!record.models.emplace(id, std::move(*model)).second)
      return refuse("models", "one model twice");
    if (holdings.expert_bytes() > 0) record.expert_bytes.emplace(id, holdings.expert_bytes());
  }
  if (!in.manifest_root().empty()) {
    if (!read_array(in.manifest_root(), record.manifest_root.emplace()))
      return refuse("manifest_root", "must be 32 bytes");
  }
  return record;
}

std::optional<Sealed> split_sealed(std::span<const std::uint8_t> bytes) {
  if (bytes.size() <= kSignatureBytes) return std::nullopt;
  Sealed sealed{.body = bytes.first(bytes.size() - kSignatureBytes)};
  const auto signature = bytes.last(kSignatureBytes);
  std::copy(signature.begin(), signature.end(), sealed.signature.begin());
  return sealed;
}

}  // namespace tenzro::wire
