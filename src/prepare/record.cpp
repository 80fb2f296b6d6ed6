#include "record.hpp"

#include <charconv>
#include <limits>

#include <nlohmann/json.hpp>

#include "tenzro/wire/uri.hpp"

namespace tenzro::prepare {
namespace {

using nlohmann::json;

constexpr int kRecordVersion = 1;

constexpr std::string_view kStates[] = {"running", "completed", "failed", "cancelled", "waiting"};

json of_type(const std::optional<tensor::WeightType>& type) {
  return type ? json(std::string(name_of(*type))) : json(nullptr);
}

json of_quant(const std::optional<rpc::QuantPlan>& quant) {
  if (!quant) return nullptr;
  return {{"gate", of_type(quant->gate)},
          {"up", of_type(quant->up)},
          {"down", of_type(quant->down)},
          {"echo", quant->echo_json}};
}

template <typename T>
json of_optional(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

/// Members of an object; the first that is not what it should be is remembered.
class Members {
 public:
  explicit Members(const json& object) : object_(object), is_good_(object.is_object()) {}

  template <typename T>
  T number(const char* name) {
    const json* value = find(name);
    if (value == nullptr || !value->is_number_unsigned()) return bad<T>();
    const auto wide = value->get<std::uint64_t>();
    if (wide > std::numeric_limits<T>::max()) return bad<T>();
    return static_cast<T>(wide);
  }

  bool flag(const char* name) {
    const json* value = find(name);
    return value != nullptr && value->is_boolean() ? value->get<bool>() : bad<bool>();
  }

  std::optional<std::string> text(const char* name) {
    const json* value = find(name);
    if (value == nullptr || value->is_null()) return std::nullopt;
    if (!value->is_string()) return bad<std::optional<std::string>>();
    return value->get<std::string>();
  }

  std::optional<tensor::WeightType> type(const char* name) {
    const auto word = text(name);
    if (!word) return std::nullopt;
    const auto type = tensor::weight_type_from_name(*word);
    return type ? type : bad<std::optional<tensor::WeightType>>();
  }

  std::optional<std::vector<std::uint32_t>> numbers(const char* name) {
    const json* value = find(name);
    if (value == nullptr || value->is_null()) return std::nullopt;
    std::vector<std::uint32_t> list;
    for (const json& each : *value) {
      const bool is_number = each.is_number_unsigned() && each.get<std::uint64_t>() <= UINT32_MAX;
      if (!is_number) return bad<std::vector<std::uint32_t>>();
      list.push_back(each.get<std::uint32_t>());
    }
    return list;
  }

  const json* find(const char* name) {
    if (!object_.is_object()) return nullptr;
    const auto it = object_.find(name);
    return it == object_.end() ? nullptr : &*it;
  }

  [[nodiscard]] bool is_good() const { return is_good_; }

  template <typename T>
  T bad() {
    is_good_ = false;
    return T{};
  }

 private:
  const json& object_;
  bool is_good_;
};

std::optional<rpc::QuantPlan> read_quant(Members& record) {
  const json* object = record.find("quant");
  if (object == nullptr || object->is_null()) return std::nullopt;
  Members quant(*object);
  rpc::QuantPlan plan{quant.type("gate"), quant.type("up"), quant.type("down"),
                      quant.text("echo").value_or("")};
  // It goes into answers as it is.
  const bool is_json = json::accept(plan.echo_json);
  return quant.is_good() && is_json ? plan : record.bad<rpc::QuantPlan>();
}

FileVersions read_files(Members& record) {
  FileVersions files;
  const json* object = record.find("files");
  if (object == nullptr || !object->is_object()) return record.bad<FileVersions>();
  for (const auto& [name, value] : object->items()) {
    Members version(value);
    files.emplace(name, FileVersion{version.number<std::uint64_t>("bytes"),
                                    version.text("version").value_or(""),
                                    version.text("commit").value_or("")});
    if (!version.is_good()) record.bad<bool>();
  }
  return files;
}

rpc::PrepareState read_state(Members& record) {
  const std::string name = record.text("state").value_or("");
  for (std::size_t i = 0; i < std::size(kStates); ++i) {
    if (name == kStates[i]) return static_cast<rpc::PrepareState>(i);
  }
  return record.bad<rpc::PrepareState>();
}

std::optional<std::uint32_t> read_index(std::string_view text) {
  std::uint32_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string to_text(const JobRecord& record) {
  const rpc::PrepareExpertsCall& call = record.call;
  json files = json::object();
  for (const auto& [name, version] : record.files)
    files[name] = {
        {"bytes", version.file_bytes}, {"version", version.version}, {"commit", version.commit}};
  const json text{{"v", kRecordVersion},
                  {"model", call.model},
                  {"layer", call.layer},
                  {"asked_layers", call.layers},
                  {"all_layers", call.has_all_layers},
                  {"experts", of_optional(call.experts)},
                  {"include_gate", call.include_gate},
                  {"quant", of_quant(call.quant)},
                  {"strict", call.strict},
                  {"dense_f32", call.dense_f32},
                  {"imatrix", of_optional(call.imatrix)},
                  {"source", of_optional(call.source)},
                  {"loads", call.loads},
                  {"state", std::string(kStates[static_cast<std::size_t>(record.state)])},
                  {"error", of_optional(record.error)},
                  {"layers", record.layers},
                  {"total_experts", record.total_experts},
                  {"files", std::move(files)}};
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<JobRecord> read_job_record(std::string_view text) {
  const json document = json::parse(text.begin(), text.end(), nullptr, false);
  Members members(document);
  if (members.number<int>("v") != kRecordVersion) return std::nullopt;
  JobRecord record;
  rpc::PrepareExpertsCall& call = record.call;
  call.model = members.text("model").value_or("");
  call.layer = members.number<LayerIndex>("layer");
  call.layers = members.numbers("asked_layers").value_or(std::vector<LayerIndex>());
  call.has_all_layers = members.flag("all_layers");
  call.experts = members.numbers("experts");
  call.include_gate = members.flag("include_gate");
  call.quant = read_quant(members);
  call.strict = members.flag("strict");
  call.dense_f32 = members.flag("dense_f32");
  call.imatrix = members.text("imatrix");
  call.source = members.text("source");
  call.loads = members.flag("loads");
  record.state = read_state(members);
  record.error = members.text("error");
  record.layers = members.numbers("layers").value_or(std::vector<LayerIndex>());
  record.total_experts = members.number<std::uint32_t>("total_experts");
  record.files = read_files(members);
  if (!members.is_good() || call.model.empty()) return std::nullopt;
  return record;
}

std::string part_name(LayerIndex layer, std::optional<ExpertIndex> expert) {
  return std::to_string(layer) + "/" + (expert ? std::to_string(*expert) : "gate");
}

std::string to_text(const rpc::PreparedBlob& blob) {
  return json{{"quant", of_type(blob.quant)},
              {"gate", of_type(blob.gate_type)},
              {"up", of_type(blob.up_type)},
              {"down", of_type(blob.down_type)}}
      .dump();
}

std::optional<Part> read_part(const work::LoggedPart& logged) {
  const std::size_t slash = logged.name.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string_view name(logged.name);
  const auto layer = read_index(name.substr(0, slash));
  const std::string_view which = name.substr(slash + 1);
  Part part;
  if (which != "gate") {
    part.expert = read_index(which);
    if (!part.expert) return std::nullopt;
  }
  const json document = json::parse(logged.record, nullptr, false);
  Members members(document);
  rpc::PreparedBlob& blob = part.blob;
  blob.quant = members.type("quant");
  blob.gate_type = members.type("gate");
  blob.up_type = members.type("up").value_or(tensor::WeightType::f32);
  blob.down_type = members.type("down").value_or(tensor::WeightType::f32);
  if (!layer || !members.is_good()) return std::nullopt;
  blob.layer = *layer;
  blob.expert = part.expert.value_or(0);
  blob.uri = wire::format_blob_uri(logged.hash);
  blob.bytes = logged.size_bytes;
  return part;
}

}  // namespace tenzro::prepare
