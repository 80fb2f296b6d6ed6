#!/usr/bin/env bash
# Every relative link of a page leads to a file that is there.
# usage: check_links.sh PROJECT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
. "$here/tracked.sh"
broken=$(tracked | grep -E '\.md$' | while IFS= read -r page; do
  { grep -oE '\]\([^)#: ]+' "$page" || true; } | sed 's/^](//' | while IFS= read -r target; do
    [ -e "$(dirname "$page")/$target" ] || echo "$page: $target"
  done
done)
[ -z "$broken" ] || { echo "links to nowhere:"; echo "$broken"; exit 1; }
