#pragma once
/// \file
/// What `tenzro moe prepare-experts` asks of the node.
#include <cstdint>
#include <string>
#include <vector>

#include "command.hpp"

namespace tenzro::cli {

struct PrepareFlags {
  std::string model;
  std::string layer;
  std::vector<std::uint32_t> experts;
  bool no_gate = false;
  std::string quant;
  std::string quant_json;
  std::string dense;
  std::string imatrix;
  bool strict = false;
  std::string source;
  bool load = false;
  bool follow = false;
};

[[nodiscard]] Outcome<Request> prepare_request(const PrepareFlags& flags);

}  // namespace tenzro::cli
