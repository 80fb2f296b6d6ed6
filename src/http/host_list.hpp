#pragma once
/// \file
/// Which `Host` values this server answers to.
///
/// Names are compared in lower case and without the port; addresses in their canonical form.
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/result.hpp"

namespace tenzro::http {

/// The canonical name in a Host header (`host[:port]`); nothing where it is malformed.
[[nodiscard]] std::optional<std::string> host_name(std::string_view header);

class HostList {
 public:
  /// Refuses an entry of `allowed` that is not a host name.
  [[nodiscard]] static Result<HostList> make(std::string_view listen_host,
                                             const std::vector<std::string>& allowed);

  /// `name` as host_name gives it; `arrived_at` is the local address of the connection.
  [[nodiscard]] bool allows(std::string_view name, std::string_view arrived_at) const;

 private:
  std::set<std::string, std::less<>> names_;
  bool is_wildcard_ = false;
};

}  // namespace tenzro::http
