#!/usr/bin/env bash
# Sourced by the checks: prints the project's own files below the current folder, one a line.
# Git knows them; a tree without git (a release archive) has only its own files beside build/.
tracked() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    # Staged and new files too, so that a mistake shows before it is committed; not deleted ones.
    git ls-files --cached --others --exclude-standard | sort -u | while IFS= read -r file; do
      [ ! -e "$file" ] || printf '%s\n' "$file"
    done
  else
    find . -type f -not -path './build/*' -not -path '*/node_modules/*' | sed 's|^\./||' | sort
  fi
}
