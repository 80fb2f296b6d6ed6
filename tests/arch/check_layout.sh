#!/usr/bin/env bash
# The top level holds what docs/architecture.md lists, and nothing else.
# usage: check_layout.sh PROJECT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
. "$here/tracked.sh"
want=$(printf '%s\n' .ci .clang-format .clang-tidy .gitignore CMakeLists.txt CMakePresets.json LICENSE \
  README.md bench cmake configs docs include kernels proto src tests | sort)
have=$(tracked | sed 's|/.*||' | sort -u)
diff <(echo "$want") <(echo "$have") || { echo "top level: < is missing, > is not in the plan"; exit 1; }
