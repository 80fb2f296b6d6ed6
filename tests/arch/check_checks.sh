#!/usr/bin/env bash
# Each check of the sources refuses what it is there for: a small bad project is made, and all must fail.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bad=$(mktemp -d)
trap 'rm -rf "$bad"' EXIT
mkdir -p "$bad/include/tenzro/node" "$bad/src/node" "$bad/extra"
cp "$here/../../.clang-format" "$bad"
echo '#include <boost/asio.hpp>' >"$bad/include/tenzro/node/node.hpp"
printf '// line\n%.0s' $(seq 601) >"$bad/src/node/long.cpp"
echo 'int   badly_formatted;' >"$bad/src/node/format.cpp"
printf '// see /%s/alice/notes\n' home >"$bad/src/node/path.cpp"
echo 'See [there](nowhere/page.md).' >"$bad/README.md"
echo stray >"$bad/extra/file"

status=0
refuses() {  # check, what its output must name
  local text result=0
  text=$(bash "$here/check_$1.sh" "$bad" 2>&1) || result=$?
  if [ "$1" = format ] && [ $result = 77 ]; then return; fi
  if [ $result != 1 ] || ! grep -q "$2" <<<"$text"; then
    echo "check_$1.sh: exit $result, without naming '$2': $text"
    status=1
  fi
}
refuses format format.cpp
refuses includes node.hpp
refuses lengths long.cpp
refuses links nowhere/page.md
refuses words path.cpp
refuses layout extra
exit $status
