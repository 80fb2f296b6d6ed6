#!/usr/bin/env bash
# Kernel objects export their kernels and nothing else: a weak symbol compiled for a wide ISA could replace the
# program's own copy and end as SIGILL on a smaller CPU.
# usage: check_weak_symbols.sh OBJECT...
set -euo pipefail
shopt -s inherit_errexit
[ $# -gt 0 ] || { echo "no kernel objects given"; exit 1; }
bad=$(for object in "$@"; do
  # W, V, u: weak or unique; T: a function of ours. Sanitizers add their own weak names.
  nm --defined-only "$object" | awk -v object="$object" '
    $2 ~ /^[WwVvu]$/ && $3 !~ /^(__asan|__ubsan|__tsan|__odr_asan|DW\.ref)/ {print object ": weak " $3}
    $2 == "T" && $3 !~ /^tz_/ {print object ": exported " $3}'
  nm --undefined-only "$object" | awk -v object="$object" '
    $2 !~ /^(fmaf|memcpy|memset|memmove|memcmp|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__(asan|ubsan|tsan|sanitizer)_.*)$/ {
      print object ": needs " $2}'
done)
[ -z "$bad" ] || { echo "$bad"; exit 1; }
echo "$# objects"
