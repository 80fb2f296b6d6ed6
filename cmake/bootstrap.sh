#!/usr/bin/env bash
# From a bare Debian 12 or 13 to a running demonstration or a tested build, in one command:
#
#   bash cmake/bootstrap.sh demo [options]  install packages, build, run cmake/demo.sh [options]
#   bash cmake/bootstrap.sh test            install packages, build, run every default test
#   bash cmake/bootstrap.sh deep            the same code under sanitizers, the fuzzers and clang-tidy
#
# Safe to repeat; what is there already is not done again. Packages (cmake/packages.txt) are installed
# as root or through sudo, and apt is not called when nothing is missing.
# TENZRO_JOBS=n bounds parallel work (default: cores, and 1.5 GiB of memory a job).
# TENZRO_DEPS_CACHE=folder keeps what is fetched without being installed (default ~/.cache/tenzrod).
# TENZRO_FUZZ_SECONDS=n is how long deep runs each fuzz target (default 30).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
# Packages that are used without being installed; shared by every checkout of one user.
export TENZRO_DEPS_CACHE=${TENZRO_DEPS_CACHE:-${HOME:+$HOME/.cache/tenzrod}}
: "${TENZRO_DEPS_CACHE:=$root/build/packages}"

say() { printf '\n== %s\n' "$*"; }
die() { printf 'bootstrap: %s\n' "$1" >&2; exit "${2:-1}"; }
usage() { sed -n '2,13s/^# \{0,1\}//p' "$root/cmake/bootstrap.sh" >&2; exit 2; }

# ---- packages -------------------------------------------------------------------------------------

# The lines of the named groups in packages.txt, without comments.
wanted() {
  awk -v groups=" $* " '
    { sub(/#.*/, ""); gsub(/^[ \t]+|[ \t]+$/, "") }
    /^\[.*\]$/ { on = index(groups, " " substr($0, 2, length($0) - 2) " ") > 0; next }
    on && $0 != "" { gsub(/[ \t]*\|[ \t]*/, "|"); print }' cmake/packages.txt
}

is_installed() {
  case $1 in
    -) false ;;
    fetch:*) [ -e "$TENZRO_DEPS_CACHE/${1#fetch:}.deb" ] ;;
    *) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
  esac
}

is_available() {
  [ "$1" = - ] || [ -n "$(apt-cache madison "${1#fetch:}" 2>/dev/null)" ]
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

apt() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@" </dev/null
}

# Keeps a package's file in the cache, where cmake/Find*.cmake look for it; installs nothing.
fetch() {
  local name=$1 work
  work=$(mktemp -d)
  if ! (cd "$work" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$name"); then
    rm -rf "$work"
    die "cannot fetch the package $name" 3
  fi
  mkdir -p "$TENZRO_DEPS_CACHE"
  mv "$work/$name"_*.deb "$TENZRO_DEPS_CACHE/$name.deb"
  rm -rf "$work"
}

# The first of a line's alternatives for which a predicate holds.
first_of() {
  local predicate=$1 choice
  for choice in ${2//|/ }; do
    if "$predicate" "$choice"; then printf '%s\n' "$choice"; return 0; fi
  done
  return 1
}

install_packages() {
  command -v dpkg-query >/dev/null || { echo "bootstrap: no dpkg here: packages are up to you"; return 0; }
  # Lines ending in `-` that this system has no package for: not asked for again.
  local absent=build/.packages-absent
  local line choice missing=() install=() fetched=()
  while IFS= read -r line; do
    first_of is_installed "$line" >/dev/null || grep -qsxF "$line" "$absent" || missing+=("$line")
  done < <(wanted "$@")
  [ ${#missing[@]} -gt 0 ] || return 0

  say "installing packages for: $*"
  if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
    die "these are missing, and neither root nor a password-less sudo is at hand: ${missing[*]}" 3
  fi
  apt update || echo "bootstrap: apt-get update failed; going on with the lists that are here" >&2
  for line in "${missing[@]}"; do
    choice=$(first_of is_available "$line") || die "no package for '$line' in this system's sources" 3
    case $choice in
      -)
        echo "bootstrap: not to be had here, left out: ${line%|-}"
        echo "$line" >>"$absent"
        ;;
      fetch:*) fetched+=("${choice#fetch:}") ;;
      *) install+=("$choice") ;;
    esac
  done
  if [ ${#install[@]} -gt 0 ]; then
    printf '%s\n' "${install[*]}"
    apt install -y --no-install-recommends "${install[@]}" >/dev/null || die "apt-get install failed" 3
  fi
  for choice in "${fetched[@]}"; do fetch "$choice"; done
}

# Foreign clients of tests/interop come from npm, where that folder says so. Why not `npm ci`: it refuses a lock file
# that lacks packages of other platforms, and registries do lack them; hashes are checked all the same.
install_interop() {
  local dir=tests/interop left_out="the interop tests that need npm packages will be skipped"
  [ -f $dir/package.json ] || return 0
  if ! command -v npm >/dev/null && ! (install_packages interop); then
    echo "bootstrap: no npm here: $left_out" >&2
    return 0
  fi
  [ $dir/node_modules/.package-lock.json -nt $dir/package.json ] && return 0
  say "installing npm packages of $dir"
  if ! npm install --prefix $dir --no-save --no-audit --no-fund </dev/null; then
    echo "bootstrap: npm has not installed them: $left_out" >&2
    return 0
  fi
  touch $dir/node_modules/.package-lock.json
}

# ---- build and test -------------------------------------------------------------------------------

job_count() {
  local cores memory_kib
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)
  local by_memory=$((memory_kib / 1572864))
  local jobs=$((by_memory < cores ? by_memory : cores))
  echo $((jobs < 1 ? 1 : jobs))
}

# build PRESET [target...]
build() {
  local preset=$1
  shift
  say "configuring: $preset"
  cmake --preset "$preset" >"build/$preset.configure.log" 2>&1 ||
    { cat "build/$preset.configure.log" >&2; die "configuring '$preset' failed"; }
  say "building: $preset ${*:-everything} ($jobs at a time)"
  cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}

# Runs a step and remembers a failure, so that one bad step does not hide the others.
failed=()
step() {
  local name=$1
  shift
  "$@" || failed+=("$name")
}

fuzz_longer() {
  local source name corpus seconds=${TENZRO_FUZZ_SECONDS:-30}
  for source in tests/fuzz/*.cpp; do
    name=$(basename "$source" .cpp)
    [ "$name" != replay_main ] || continue
    say "fuzzing $name for $seconds s"
    mkdir -p "build/asan/found/$name"
    corpus=tests/fuzz/corpus/$name
    [ -d "$corpus" ] || corpus=
    step "fuzz $name" "build/asan/bin/fuzz_$name" -max_total_time="$seconds" -timeout=20 \
      -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
      -artifact_prefix="build/asan/found/$name-" "build/asan/found/$name" ${corpus:+"$corpus"}
  done
}

# Parts of the tree whose tests start threads, by folder: built and run under the thread sanitizer.
tsan_parts() {
  local dir
  for dir in tests/unit/exec tests/unit/store tests/unit/http tests/unit/net tests/functional; do
    [ -f $dir/CMakeLists.txt ] && echo $dir
  done
  return 0
}

run_tsan() {
  local parts targets=() dir
  mapfile -t parts < <(tsan_parts)
  for dir in "${parts[@]}" src/daemon src/cli; do
    [ -f "$dir/CMakeLists.txt" ] && targets+=("$dir/all")
  done
  if [ ${#parts[@]} = 0 ]; then return 0; fi
  build tsan "${targets[@]}" || return 1
  for dir in "${parts[@]}"; do
    say "testing: tsan $dir"
    step "tsan $dir" env TSAN_OPTIONS=halt_on_error=1 ctest --test-dir "build/tsan/$dir" \
      --output-on-failure --no-tests=error -LE '^(gpu|soak|long)$' -j "$jobs"
  done
}

run_tidy() {
  command -v clang-tidy-14 >/dev/null || { echo "bootstrap: no clang-tidy-14 here; not run"; return 0; }
  say "clang-tidy over src/"
  # What this build compiles: of src/net/tls_*.cpp only one has its library here.
  sed -n "s|^ *\"file\": \"$root/\(src/.*\.cpp\)\".*|\1|p" build/asan/compile_commands.json | sort -u |
    xargs -r -n 1 -P "$jobs" clang-tidy-14 -p build/asan --quiet
}

deep() {
  build asan
  say "testing: asan"
  step asan ctest --preset asan -j "$jobs"
  step "tsan build" run_tsan
  fuzz_longer
  step clang-tidy run_tidy
  [ ${#failed[@]} = 0 ] || die "failed: $(printf '%s; ' "${failed[@]}")"
  say "deep: everything passed"
}

[ $# -ge 1 ] || usage
command=$1
shift
mkdir -p build
case $command in
  demo)
    install_packages build
    jobs=${TENZRO_JOBS:-$(job_count)}
    build release src/daemon/all src/cli/all
    exec bash cmake/demo.sh "$@"
    ;;
  test)
    install_packages build
    install_interop
    jobs=${TENZRO_JOBS:-$(job_count)}
    build release
    say "testing: release"
    exec ctest --preset release -j "$jobs"
    ;;
  deep)
    install_packages build deep
    install_interop
    jobs=${TENZRO_JOBS:-$(job_count)}
    # The thread sanitizer of gcc 12 wants its address space where the kernel no longer puts it.
    if [ "${TENZRO_DEEP_NO_ASLR:-}" != 1 ] && setarch -R true 2>/dev/null; then
      TENZRO_DEEP_NO_ASLR=1 exec setarch -R bash cmake/bootstrap.sh deep
    fi
    deep
    ;;
  *) usage ;;
esac
