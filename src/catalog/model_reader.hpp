#pragma once
/// \file
/// One [[model]] of the catalog.
#include <map>
#include <string>

#include "tenzro/catalog/model.hpp"

#include "family.hpp"
#include "table_reader.hpp"

namespace tenzro::catalog {

using Families = std::map<std::string, Family, std::less<>>;

[[nodiscard]] Model read_model(const toml::table& table, const Families& families,
                               FirstError& error);

}  // namespace tenzro::catalog
