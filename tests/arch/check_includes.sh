#!/usr/bin/env bash
# Public headers name no third-party type: they include the standard library and the project's own headers.
# Two exceptions: base gives everyone tl::expected, and exec/loop.hpp lends shells the event loop's context
# as a type that it only declares.
# usage: check_includes.sh PROJECT
set -euo pipefail
cd "$1/include"
allowed='#include (<[a-z0-9_]+>|"tenzro/[a-z0-9_/]+\.hpp")'
types='\b(nlohmann|asio|boost|spdlog|fmt|google|toml|CLI|prometheus|dnnl|Eigen)::'
prefixes='\b(ngtcp2|gnutls|sqlite3|curl|sodium|crypto_sign|EVP|SSL)_'
bad=$(
  grep -rnE '^[[:space:]]*#[[:space:]]*include' tenzro | grep -vE ":$allowed\$" |
    grep -vE '^tenzro/base/[a-z0-9_]+\.hpp:[0-9]+:#include <tl/expected\.hpp>$' || true
  grep -rnE "$types|$prefixes" tenzro |
    grep -vE '^tenzro/exec/loop\.hpp:[0-9]+:.* asio::io_context& context\(\);$' || true
)
[ -z "$bad" ] || { echo "third-party names in public headers:"; echo "$bad"; exit 1; }
