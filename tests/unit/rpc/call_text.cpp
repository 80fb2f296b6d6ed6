#include "call_text.hpp"

#include <string_view>

#include "tenzro/base/bytes.hpp"

namespace tenzro::rpc {
namespace {

/// Writes `name=value` pairs.
class Text {
 public:
  explicit Text(std::string_view kind) : text_(kind) {}

  Text& field(std::string_view name, std::string_view value) {
    text_.append(" ").append(name).append("=").append(value);
    return *this;
  }

  template <std::integral T>
  Text& field(std::string_view name, T value) {
    return field(name, std::string_view(std::to_string(value)));
  }

  Text& field(std::string_view name, const BufferRef& bytes) {
    return field(name, std::string_view(to_hex(as_u8(bytes.bytes()))));
  }

  Text& field(std::string_view name, const LayerKey& key) {
    return field(name, std::string_view(key.model + "/" + std::to_string(key.layer)));
  }

  Text& field(std::string_view name, const ExpertKey& key) {
    return field(name, LayerKey{key.model, key.layer}).field("expert", key.expert);
  }

  Text& field(std::string_view name, const Rows& rows) {
    return field(name, rows.data).field("count", rows.count).field("width", rows.width);
  }

  Text& field(std::string_view name, tensor::WeightType type) {
    return field(name, tensor::name_of(type));
  }

  Text& field(std::string_view name, compute::Profile profile) {
    return field(name, compute::name_of(profile));
  }

  template <typename T>
  Text& field(std::string_view name, const std::vector<T>& values) {
    std::string list = "[";
    for (const T& value : values) list.append(std::to_string(value)).append(",");
    return field(name, std::string_view(list + "]"));
  }

  template <typename T>
  Text& field(std::string_view name, const std::optional<T>& value) {
    return value ? field(name, *value) : field(name, std::string_view("none"));
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string text(const ShardMapCall& call) {
  return Text("ShardMap").field("model", call.model).take();
}

std::string text(const PlanDispatchCall& call) {
  Text out("PlanDispatch");
  out.field("model", call.model).field("allow_cold", call.allow_cold);
  for (const TokenRouting& routing : call.routings) {
    out.field("token", routing.token_index);
    for (const ExpertSlot& slot : routing.experts) {
      out.field("layer", slot.layer).field("expert", slot.expert);
    }
  }
  return out.take();
}

std::string text(const CatalogShapeCall& call) {
  return Text("CatalogShape").field("model", call.model).take();
}

std::string text(const ModelMetadataCall& call) {
  return Text("ModelMetadata").field("model", call.model).take();
}

std::string text(const ExpertLoadCall& call) {
  return Text("ExpertLoad")
      .field("key", call.key)
      .field("inline", call.has_inline)
      .field("blob", call.blob)
      .field("uri", call.uri)
      .take();
}

std::string text(const GateLoadCall& call) {
  return Text("GateLoad")
      .field("key", call.key)
      .field("inline", call.has_inline)
      .field("blob", call.blob)
      .field("uri", call.uri)
      .take();
}

std::string text(const ExpertUnloadCall& call) {
  return Text("ExpertUnload").field("key", call.key).take();
}

std::string text(const GateUnloadCall& call) {
  return Text("GateUnload").field("key", call.key).take();
}

std::string text(const RouteCall& call) {
  return Text("Route")
      .field("key", call.key)
      .field("d_model", call.d_model)
      .field("hidden", call.hidden)
      .field("top_k", call.top_k)
      .field("token_ids", call.token_ids)
      .field("router_hidden", call.router_hidden)
      .take();
}

std::string text(const ForwardCall& call) {
  return Text("Forward")
      .field("route", std::string_view(text(call.route)))
      .field("allow_cold", call.allow_cold)
      .field("allow_partial", call.allow_partial)
      .field("carrier", call.carrier ? static_cast<int>(*call.carrier) : -1)
      .field("profile", call.profile)
      .take();
}

std::string text(const ExecuteCall& call) {
  return Text("Execute")
      .field("key", call.key)
      .field("d_model", call.d_model)
      .field("token_indices", call.token_indices)
      .field("q8", call.is_q8)
      .field("carrier", call.carrier)
      .field("hidden", call.hidden)
      .field("profile", call.profile)
      .take();
}

std::string text(const PrepareExpertsCall& call) {
  Text out("PrepareExperts");
  out.field("model", call.model).field("layer", call.layer);
  if (!call.layers.empty()) out.field("layers", call.layers);
  if (call.has_all_layers) out.field("all", call.has_all_layers);
  if (call.loads) out.field("load", call.loads);
  if (call.imatrix) out.field("imatrix", call.imatrix);
  out.field("experts", call.experts)
      .field("include_gate", call.include_gate)
      .field("strict", call.strict)
      .field("dense_f32", call.dense_f32)
      .field("source", call.source);
  if (call.quant) {
    out.field("gate", call.quant->gate)
        .field("up", call.quant->up)
        .field("down", call.quant->down)
        .field("echo", call.quant->echo_json);
  }
  return out.take();
}

std::string text(const PrepareStatusCall& call) {
  return Text("PrepareStatus")
      .field("job_id", call.job_id)
      .field("is_summary", call.is_summary)
      .take();
}

std::string text(const PrepareCancelCall& call) {
  return Text("PrepareCancel").field("job_id", call.job_id).take();
}

std::string text(const PrepareResumeCall& call) {
  return Text("PrepareResume").field("job_id", call.job_id).take();
}

std::string text(const PublishBlobCall& call) {
  return Text("PublishBlob").field("bytes", call.bytes).take();
}

std::string text(const FetchBlobCall& call) {
  return Text("FetchBlob").field("uri", call.uri).take();
}

std::string text(const NodeDrainCall& call) {
  return Text("NodeDrain").field("limit_s", call.limit_s).take();
}

/// Calls without parameters.
template <typename Empty>
std::string text(const Empty& /*call*/) {
  static_assert(std::is_empty_v<Empty>, "a call with fields needs its own text");
  return "no parameters";
}

}  // namespace

std::string text_of(const Call& call) {
  return std::to_string(call.index()) + ' ' +
         std::visit([](const auto& each) { return text(each); }, call);
}

}  // namespace tenzro::rpc
