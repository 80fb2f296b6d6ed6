#!/usr/bin/env bash
# Configures tests/arch/layering with one case and checks that the arrow is allowed, or refused with
# the sentence that explains it.
# usage: check_layering.sh CASE CMAKE CXX BUILD_DIR
set -euo pipefail
case=$1 cmake=$2 cxx=$3 build=$4
declare -A sentence=(
  [allowed]=""
  [upward]="layering: 'wire' (L2) must not depend on 'planner' (L3)"
  [impure]="purity: pure module 'node' must not depend on impure 'clocks'"
  [unknown]="layering: 'node' depends on 'gossip', which no earlier folder defines"
  [around]="layering: 'wire' links tenzro_planner around its DEPS list"
  [kernel_imports]="kernels: 'kernels_cpu' must not depend on 'planner'"
  [kernel_imported]="kernels: 'node' (L4) must not depend on 'kernels_cpu'"
)
rm -rf "$build"
status=0
# cmake wraps long messages, so the text is compared with its white space folded.
text=$("$cmake" -S "$(dirname "$0")/layering" -B "$build" -G Ninja -DCASE="$case" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_COMPILER_WORKS=1 2>&1) || status=$?
text=$(tr -s '[:space:]' ' ' <<<"$text")
want=${sentence[$case]}
if [ -z "$want" ]; then
  [ $status = 0 ] || { echo "$case: must configure, but: $text"; exit 1; }
else
  [ $status != 0 ] || { echo "$case: configured, but must be refused"; exit 1; }
  [[ $text == *"$want"* ]] || { echo "$case: refused for another reason: $text"; exit 1; }
fi
