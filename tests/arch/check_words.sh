#!/usr/bin/env bash
# The project speaks of itself alone: no path of somebody's machine, no host of a package registry, no
# work left undone in a comment.
# usage: check_words.sh PROJECT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
. "$here/tracked.sh"
paths='(^|[^A-Za-z0-9_.$}-])/(work|root|mnt|Users|home/[a-z]+)/'
outside='\.\./shared/|(^|[[:space:]"`(])shared/(design|golden|models|samples|seeds|skeleton|tools)'
hosts='://([a-z0-9-]+\.)*(registry|deb|ftp|snapshot|mirrors?|proxy|npm|pypi)\.'
undone='\b(TODO|FIXME|XXX)\b'
# This script spells its own patterns; data files are not text of ours.
files=$(tracked | grep -vE '^tests/data/|^tests/fuzz/corpus/|^tests/arch/check_words\.sh$')
status=0
report() {  # sentence, pattern, files
  local hits
  hits=$(tr '\n' '\0' <<<"$3" | xargs -0 grep -HnIE "$2" || true)
  [ -z "$hits" ] || { echo "$1:"; echo "$hits"; status=1; }
}
report "paths of one machine" "$paths" "$files"
report "paths outside the project" "$outside" "$files"
report "package registries" "$hosts" "$files"
report "work left undone" "$undone" "$(grep -E '^(src|include|kernels|tests|bench|cmake)/' <<<"$files")"
exit $status
