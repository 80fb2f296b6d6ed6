#pragma once
/// \file
/// Family: what the models of one [family.NAME] share.
#include <string>

#include "tenzro/catalog/model.hpp"

#include "table_reader.hpp"

namespace tenzro::catalog {

struct Family {
  std::string architecture;
  Layout layout = Layout::dense;
  compute::FfnSpec ffn;
  wire::RouterSpec router;
};

[[nodiscard]] Family read_family(const toml::table& table, const std::string& name,
                                 FirstError& error);

}  // namespace tenzro::catalog
