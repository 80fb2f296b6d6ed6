#include "prepare_request.hpp"

#include <filesystem>
#include <optional>
#include <set>

#include "format.hpp"
#include "number_list.hpp"

namespace tenzro::cli {
namespace {

/// A path is the node's to open, from wherever it runs: it goes out absolute.
std::string source_of(const std::string& source) {
  if (source.find("://") != std::string::npos) return source;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(source, error);
  return error ? source : absolute.lexically_normal().string();
}

/// "7", "0,1,2" or "all", as the parameter has it.
Outcome<Json> layers_of(const std::string& text) {
  if (text == "all") return Json(text);
  std::vector<std::uint32_t> layers;
  if (!read_number_list(text, layers)) {
    return failure(ExitCode::usage, "--layer: '" + printable(text) +
                                        "' is no layer: a number, a list like 0,3, or all");
  }
  return layers.size() == 1 ? Json(layers.front()) : Json(layers);
}

/// Of several members of one name JSON parsers take the last: `twice` names the first such one.
Json parse_quant(const std::string& text, std::optional<std::string>& twice) {
  std::set<std::string> names;
  return Json::parse(
      text,
      [&](int depth, Json::parse_event_t event, Json& parsed) {
        const bool is_name = event == Json::parse_event_t::key && depth == 1;
        if (is_name && !names.insert(parsed.get<std::string>()).second && !twice)
          twice = parsed.get<std::string>();
        return true;
      },
      false);
}

}  // namespace

Outcome<Request> prepare_request(const PrepareFlags& flags) {
  const Outcome<Json> layers = layers_of(flags.layer);
  if (!layers) return failure(layers.error());
  Request request{.method = "tenzro_moePrepareExperts",
                  .params = {{"model_id", flags.model}, {"layer", *layers}}};
  Json& params = request.params;
  if (!flags.experts.empty()) params["experts"] = flags.experts;
  if (flags.no_gate) params["include_gate"] = false;
  if (!flags.quant.empty()) params["quant"] = flags.quant;
  if (!flags.quant_json.empty()) {
    std::optional<std::string> twice;
    Json quant = parse_quant(flags.quant_json, twice);
    if (twice) {
      return failure(ExitCode::usage, "--quant-json: '" + printable(*twice) + "' is named twice");
    }
    if (!quant.is_object()) {
      return failure(ExitCode::usage,
                     R"(--quant-json: not a JSON object like {"up":"q4_k","down":"q6_k"})");
    }
    params["quant"] = std::move(quant);
  }
  if (!flags.dense.empty()) params["dense"] = flags.dense;
  if (flags.strict) params["strict"] = true;
  if (!flags.imatrix.empty()) params["imatrix"] = flags.imatrix;
  if (!flags.source.empty()) params["source"] = source_of(flags.source);
  if (flags.load) params["load"] = true;
  return request;
}

}  // namespace tenzro::cli
