#!/usr/bin/env bash
# Starts one node on ports that the system chooses, runs a small real checkpoint through it, and says whether the numbers are
# right. Usage: demo.sh [--keep] (leave the node running and print how to reach it). Needs a release build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=build/release/bin
keep=no
for argument in "$@"; do
  case $argument in
    --keep) keep=yes ;;
    *) echo "usage: demo.sh [--keep]" >&2; exit 2 ;;
  esac
done

data=$(mktemp -d "${TMPDIR:-/tmp}/tenzrod-demo.XXXXXX")
node=
cleanup() {
  if [ -n "$node" ] && kill -0 "$node" 2>/dev/null; then
    kill -TERM "$node"
    wait "$node" || true
  fi
  rm -rf "$data"
}
trap cleanup EXIT

"$bin/tenzrod" --config configs/demo/node.toml --data-dir "$data/node" >"$data/log" 2>&1 &
node=$!
for _ in $(seq 300); do
  [ -e "$data/node/addresses.json" ] && break
  kill -0 "$node" 2>/dev/null || { echo "the node did not start:" >&2; cat "$data/log" >&2; exit 1; }
  sleep 0.1
done
[ -e "$data/node/addresses.json" ] || { echo "the node is not ready after 30 s:" >&2; cat "$data/log" >&2; exit 1; }
rpc=http://$(sed -n 's/.*"rpc":"\([^"]*\)".*/\1/p' "$data/node/addresses.json")
echo "node $node listens at $rpc"

status=0
"$bin/tenzro" --rpc "$rpc" demo --model-dir tests/data/models/tiny-qwen3-moe --quant q8_0 || status=$?
[ $status = 0 ] || { echo "the node's log:" >&2; tail -n 20 "$data/log" >&2; exit $status; }
if [ $keep = yes ]; then
  trap - EXIT
  echo "the node keeps running: $bin/tenzro --rpc $rpc status"
  echo "end it with: kill $node; its data is in $data"
fi
