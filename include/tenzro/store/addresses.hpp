#pragma once
/// \file
/// `<data_dir>/addresses.json`: where a running node can be reached, for scripts and tests that
/// gave it port 0.
///
/// Removed at start, put in place whole when the node is ready, removed on clean exit: while a
/// process holds the data directory, the file is there exactly when the node answers.
/// `{"rpc":"127.0.0.1:8545","quic":"0.0.0.0:9001","endpoint_id":hex,"provider":hex}`
/// Thread: the data directory's.
#include <string>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/store/data_dir.hpp"

namespace tenzro::store {

struct Addresses {
  std::string rpc;
  std::string quic;
  EndpointId endpoint_id{};
  ProviderAddress provider{};
};

[[nodiscard]] Status write_addresses(DataDir& dir, const Addresses& addresses);
[[nodiscard]] Status remove_addresses(DataDir& dir);

}  // namespace tenzro::store
