#!/usr/bin/env bash
# Starts three nodes on ports that the system chooses: a router that holds no expert, and two holders that hold
# every one. Runs a small real checkpoint through them, kills one holder with SIGKILL in the middle of a forward,
# and says whether the numbers are right and kept their bits. Then a third holder joins, and fetches what the dead one held.
# A last node, alone, runs the same model in memory that holds a part of it only, and shows its tiers.
# Usage: demo.sh [--keep] (kill nobody, heal nothing, leave the nodes running and print how to reach them). Needs a release build.
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
    for _ in $(seq 150); do
      kill -0 "${pids[$name]}" 2>/dev/null || break
      sleep 0.1
    done
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
  disown  # or bash tells of the one that is killed; cleanup looks for its end itself
  for _ in $(seq 300); do
    [ -e "$data/$name/addresses.json" ] && break
    kill -0 "${pids[$name]}" 2>/dev/null || { echo "$name did not start:" >&2; cat "$data/$name.log" >&2; exit 1; }
    sleep 0.1
  done
  [ -e "$data/$name/addresses.json" ] || { echo "$name is not ready after 30 s:" >&2; cat "$data/$name.log" >&2; exit 1; }
  echo "$name: process ${pids[$name]}, JSON-RPC at http://$(address "$name" rpc), QUIC at $(address "$name" quic)"
}

# under_replicated MODEL: the experts that the router's shard map lists as such, or "none".
under_replicated() {
  local map
  map=$("$bin/tenzro" --rpc "$router" moe shard-map --model-id "$1") || exit 1
  sed -n 's/^under-replicated *//p' <<<"$map"
}

# heal MODEL: the killed holder stays away. A fresh one joins that takes copies of any model, and every expert has two
# holders again.
heal() {
  local begin=$SECONDS lost status
  for _ in $(seq 200); do
    lost=$(under_replicated "$1") || return 1
    [ "$lost" = none ] || break
    sleep 0.1
  done
  [ "$lost" != none ] || { echo "FAILED: nobody missed holder-1 within 20 s" >&2; return 1; }
  printf '\nholder-1 stays away; under-replicated: %.60s...\n' "$lost"
  start holder-3 configs/demo/holder.toml --bootstrap "$bootstrap"
  for _ in $(seq 600); do
    lost=$(under_replicated "$1") || return 1
    [ "$lost" = none ] && break
    sleep 0.1
  done
  [ "$lost" = none ] || { echo "FAILED: replication did not return to 2" >&2; return 1; }
  status=$("$bin/tenzro" --json --rpc "http://$(address holder-3 rpc)" moe status) || return 1
  [[ $status == *'"expert":'* ]] || { echo "FAILED: holder-3 holds nothing" >&2; return 1; }
  echo "\$ tenzro moe shard-map --model-id $1"
  "$bin/tenzro" --rpc "$router" moe shard-map --model-id "$1" | sed -n '1,12p'
  echo "PASSED: $((SECONDS - begin)) s later every expert has two holders again: holder-3 fetched its copies from holder-2"
}

# show_tiers: the checkpoint on a node whose memory does not hold its experts. What a forward is routed to is looked up
# in memory; what is not there is read from disk side by side, while the rest is computed.
show_tiers() {
  local tool status
  start cramped configs/demo/cramped.toml
  tool="$bin/tenzro --rpc http://$(address cramped rpc)"
  $tool demo --model-dir tests/data/models/tiny-qwen3-moe --quant q8_0 || return
  echo "the tiers of cramped:"
  $tool moe status | sed -n '/^memory/p; /^disk/p; /^evicted/p; /^asked for/p'
  status=$($tool --json moe status) || return 1
  [[ $status == *'"admissions_over_budget":0'* ]] || { echo "FAILED: the budget was exceeded" >&2; return 1; }
  [[ $status != *'"evicted_to_disk":0,'* ]] || { echo "FAILED: nothing had to give way" >&2; return 1; }
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
[ $keep = yes ] || heal tiny-qwen3-moe || { show_logs; exit 1; }
show_tiers || { show_logs; exit 1; }
if [ $keep = yes ]; then
  trap - EXIT
  echo "the nodes keep running: $bin/tenzro --rpc $router providers"
  echo "end them with: kill ${pids[*]}; their data is in $data"
fi
