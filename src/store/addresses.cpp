#include "tenzro/store/addresses.hpp"

#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"

namespace tenzro::store {
namespace {
constexpr std::string_view kName = "addresses.json";
}  // namespace

Status write_addresses(DataDir& dir, const Addresses& addresses) {
  nlohmann::ordered_json json;
  json["rpc"] = addresses.rpc;
  json["quic"] = addresses.quic;
  json["endpoint_id"] = to_hex(addresses.endpoint_id);
  json["provider"] = to_hex(addresses.provider);
  // Text that is no UTF-8 cannot be an address, but must not throw either.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  return dir.write_file(kName, json.dump(-1, ' ', false, replace) + "\n", 0644);
}

Status remove_addresses(DataDir& dir) {
  return dir.remove_file(kName);
}

}  // namespace tenzro::store
