#!/usr/bin/env bash
# Public headers name no third-party type: they include the standard library, the project's own headers
# and, through base/result.hpp alone, tl::expected.
# usage: check_includes.sh PROJECT
set -euo pipefail
cd "$1/include"
allowed='#include (<[a-z0-9_]+>|"tenzro/[a-z0-9_/]+\.hpp")'
bad=$(grep -rnE '^[[:space:]]*#[[:space:]]*include' tenzro | grep -vE ":$allowed\$" |
  grep -vE '^tenzro/base/result\.hpp:[0-9]+:#include <tl/expected\.hpp>$' || true)
types='\b(nlohmann|asio|boost|spdlog|fmt|google|toml|CLI|prometheus|dnnl|Eigen)::|\b(ngtcp2|gnutls|sqlite3|curl|sodium|crypto_sign|EVP|SSL)_'
bad+=$(grep -rnE "$types" tenzro || true)
[ -z "$bad" ] || { echo "third-party names in public headers:"; echo "$bad"; exit 1; }
