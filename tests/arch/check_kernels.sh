#!/usr/bin/env bash
# A kernel's object file defines no weak symbol and calls no C++ function. An inline function compiled with
# AVX-512 would otherwise be the one that the linker keeps for the whole program, on processors without it.
# usage: check_kernels.sh OBJECT...
set -euo pipefail
[ $# -gt 0 ] || { echo "no object files given"; exit 1; }
bad=$(nm -A "$@" | awk '{name = $NF; type = $(NF - 1)} type ~ /^[WVuvw]$/ || (type == "U" && name ~ /^_Z/)' |
  sed 's|.*/\([^/]*\.o\):|\1:|')
[ -z "$bad" ] || { echo "weak symbols of kernels, or calls of C++ functions:"; echo "$bad" | c++filt; exit 1; }
