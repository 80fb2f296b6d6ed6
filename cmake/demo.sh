#!/usr/bin/env bash
# Starts three nodes on ports that the system chooses: a router that holds no expert, and two holders that hold
# every one. Runs a small real checkpoint through them, kills one holder with SIGKILL in the middle of a forward,
# and says whether the numbers are right and kept their bits. A fourth node, alone, runs the same model in memory that
# holds a part of it only, and shows its tiers.
# Usage: demo.sh [--keep] (kill nobody, leave the nodes running and print how to reach them). Needs a release build.
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
declare -A pids=()
cleanup() {
  local name
  for name in "${!pids[@]}"; do
    kill -TERM "${pids[$name]}" 2>/dev/null || true
  done
  for name in "${!pids[@]}"; do
    wait "${pids[$name]}" 2>/dev/null || true
  done
  rm -rf "$data"
}
trap cleanup EXIT

# address NAME KEY: a member of a ready node's addresses.json.
address() { sed -n 's/.*"'"$2"'":"\([^"]*\)".*/\1/p' "$data/$1/addresses.json"; }

show_logs() {
  local name
  for name in "${!pids[@]}"; do
    echo "the log of $name:" >&2
    tail -n 20 "$data/$name.log" >&2
  done
}

# start NAME CONFIG [flags...]: a node, ready.
start() {
  local name=$1 config=$2
  shift 2
  "$bin/tenzrod" --config "$config" --data-dir "$data/$name" "$@" >"$data/$name.log" 2>&1 &
  pids[$name]=$!
  for _ in $(seq 300); do
    [ -e "$data/$name/addresses.json" ] && break
    kill -0 "${pids[$name]}" 2>/dev/null || { echo "$name did not start:" >&2; cat "$data/$name.log" >&2; exit 1; }
    sleep 0.1
  done
  [ -e "$data/$name/addresses.json" ] || { echo "$name is not ready after 30 s:" >&2; cat "$data/$name.log" >&2; exit 1; }
  echo "$name: process ${pids[$name]}, JSON-RPC at http://$(address "$name" rpc), QUIC at $(address "$name" quic)"
}

# show_tiers: the checkpoint on a node whose memory does not hold its experts. What a forward is routed to is looked up
# in memory; what is not there is read from disk side by side, while the rest is computed.
show_tiers() {
  local tool
  start cramped configs/demo/cramped.toml
  tool="$bin/tenzro --rpc http://$(address cramped rpc)"
  $tool demo --model-dir tests/data/models/tiny-qwen3-moe --quant q8_0 || return
  echo "the tiers of cramped:"
  $tool moe status | sed -n '/^memory/p; /^disk/p; /^evicted/p; /^asked for/p'
  $tool --json moe status | grep -q '"admissions_over_budget":0' || { echo "the budget was exceeded" >&2; return 1; }
  $tool --json moe status | grep -q '"evicted_to_disk":0,' && { echo "nothing had to give way" >&2; return 1; }
  echo "PASSED: experts that do not fit the memory were served from disk, within the budget"
}

start router configs/demo/router.toml
bootstrap=$(address router endpoint_id)@$(address router quic)
start holder-1 configs/demo/holder.toml --bootstrap "$bootstrap"
start holder-2 configs/demo/holder.toml --bootstrap "$bootstrap"

router=http://$(address router rpc)
arguments=(--model-dir tests/data/models/tiny-qwen3-moe --quant q8_0
  --holder "http://$(address holder-1 rpc)" --holder "http://$(address holder-2 rpc)")
[ $keep = yes ] || arguments+=(--kill-holder "${pids[holder-1]}")
status=0
"$bin/tenzro" --rpc "$router" demo "${arguments[@]}" || status=$?
[ $status = 0 ] || { show_logs; exit $status; }
show_tiers || { show_logs; exit 1; }
if [ $keep = yes ]; then
  trap - EXIT
  echo "the nodes keep running: $bin/tenzro --rpc $router providers"
  echo "end them with: kill ${pids[*]}; their data is in $data"
fi
