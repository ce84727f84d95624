#!/usr/bin/env bash
# Builds the fuzz targets in folder $1 with the Python environment $2 and runs each for $3 seconds, those named after that
# or all, from its stored inputs. What it learns stays in $1/found. An input that breaks something is named and ends its
# target; the others still run, and then it fails.
set -euo pipefail
build=$1 venv=$(realpath -s "$2") seconds=$3
shift 3
cd "$(dirname "$0")/../.."
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DSWITCHTOWER_VENV="$venv" > "$build/configure.log" || { cat "$build/configure.log"; exit 1; }

targets=("$@")
if ((${#targets[@]} == 0)); then
  for folder in tests/fuzz/corpus/*/; do targets+=("$(basename "$folder")"); done
fi
ninja -C "$build" "${targets[@]/#/fuzz_}"

broken=()
for target in "${targets[@]}"; do
  found=$build/found/$target
  mkdir -p "$found"
  echo "== $target, $seconds s"
  "$build/tests/fuzz/fuzz_$target" "$found" "tests/fuzz/corpus/$target" \
    -max_total_time="$seconds" -timeout=20 -entropic=0 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/found/$target-" 2> "$build/found/$target.log" ||
    { tail -n 60 "$build/found/$target.log"; broken+=("$target"); continue; }
  grep -E 'DONE|stat::number_of_executed_units' "$build/found/$target.log"
done
if ((${#broken[@]})); then
  echo "broken: ${broken[*]}; their inputs are in $build/found"
  exit 1
fi
