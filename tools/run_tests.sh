#!/usr/bin/env bash
# All tests: unit tests, then those with Python: the package, tidiness, and end-to-end with real processes and an
# unmodified JAX client. As many side by side as there are cores; each file's output comes in one piece.
set -euo pipefail
build=$1 python=$(realpath -s "$2/bin/python")
cd "$(dirname "$0")/.."
(cd "$build" && ctest --output-on-failure -j "$(nproc)" --timeout 300)

run_file() {
  local log
  log=$(mktemp)
  local status=0
  (cd "$(dirname "$2")" && "$1" -m unittest -v "$(basename "$2" .py)") > "$log" 2>&1 || status=$?
  printf '== %s\n%s\n' "$2" "$(< "$log")"
  rm "$log"
  return "$status"
}
export -f run_file
printf '%s\n' tests/{tidy,python,e2e}/*_test.py | xargs -P "$(nproc)" -I{} bash -c 'run_file "$@"' run_file "$python" {}
