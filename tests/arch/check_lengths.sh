#!/usr/bin/env bash
# No source of the product is longer than 600 lines: longer ones hold more than one noun.
# usage: check_lengths.sh PROJECT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
. "$here/tracked.sh"
long=$(tracked | grep -E '^(src|include|kernels)/.*\.(cpp|hpp|c|h|inc|cu|cuh|wgsl)$' |
  while IFS= read -r file; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 600 ] || echo "$file: $lines lines"
  done)
[ -z "$long" ] || { echo "more than 600 lines; split by noun:"; echo "$long"; exit 1; }
