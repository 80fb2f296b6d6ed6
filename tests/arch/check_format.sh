#!/usr/bin/env bash
# Every C++ source is formatted as .clang-format says. Versions of clang-format differ in small things,
# so one counts: 14, which Debian 12 has.
# usage: check_format.sh PROJECT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
. "$here/tracked.sh"
tool=$(command -v clang-format-14 || true)
[ -n "$tool" ] || { echo "skipped: clang-format-14 is not installed"; exit 77; }
status=0
text=$(tracked | grep -E '\.(cpp|hpp|c|h|cu|cuh)$' | tr '\n' '\0' |
  xargs -0 -n 50 "$tool" --dry-run -Werror 2>&1) || status=$?
[ $status = 0 ] && exit 0
echo "not formatted; run clang-format-14 -i on:"
sed -nE 's/^([^ :]+):[0-9]+:[0-9]+: error.*/\1/p' <<<"$text" | sort -u | grep . || echo "$text"
exit 1
