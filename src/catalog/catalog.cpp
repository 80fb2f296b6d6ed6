#include "tenzro/catalog/catalog.hpp"

#include "tenzro/base/bytes.hpp"

#include "family.hpp"
#include "model_reader.hpp"
#include "table_reader.hpp"

namespace tenzro::catalog {

extern const std::string_view kBuiltinToml;

namespace {

Families read_families(TableReader& root, FirstError& error) {
  Families families;
  const toml::table* all = root.table("family");
  if (all == nullptr) return families;
  for (const auto& [key, node] : *all) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      error.set(node, "'family." + echo(key.str()) + "' is no table");
      continue;
    }
    families.emplace(key.str(), read_family(*table, echo(key.str()), error));
  }
  return families;
}

}  // namespace

Result<Catalog> Catalog::parse(std::string_view toml) {
  if (toml.size() > kTextBytesMax) {
    return fail(ErrorCode::invalid_params, "catalog",
                std::to_string(toml.size()) + " bytes, at most " + std::to_string(kTextBytesMax));
  }
  const toml::parse_result parsed = toml::parse(toml);
  FirstError error;
  if (!parsed) {
    error.set_line(parsed.error().source().begin.line, std::string(parsed.error().description()));
    return fail(error.status().error());
  }
  TableReader root(parsed.table(), "the catalog", error);
  const Families families = read_families(root, error);
  Catalog catalog;
  const toml::array* models = root.tables("model");
  for (std::size_t i = 0; models != nullptr && i < models->size(); ++i) {
    if (i == kModelsMax) {
      error.set(*models, "more than " + std::to_string(kModelsMax) + " models");
      break;
    }
    const toml::table& table = *(*models)[i].as_table();
    Model model = read_model(table, families, error);
    const ModelId id = model.id;
    if (!catalog.models_.emplace(id, std::move(model)).second) {
      error.set(table, "a second model '" + id + "'");
    }
  }
  root.finish();
  const Status status = error.status();
  if (!status) return fail(status.error());
  return catalog;
}

Result<Catalog> Catalog::builtin() {
  return parse(kBuiltinToml);
}

const Model* Catalog::find(std::string_view id) const {
  const auto found = models_.find(id);
  return found == models_.end() ? nullptr : &found->second;
}

}  // namespace tenzro::catalog
