#!/usr/bin/env bash
# All cases of docs/measurements/scale.md, as JSON lines. $1: the build folder.
set -euo pipefail
scale=${1:-build}/bench/scale/scale
"$scale" --arrays 1,64
"$scale" --arrays 1,64 --ahead 16 --device-memory 1000000000000
"$scale" --arrays 1 --ahead 16 --policy share
"$scale" --sockets 512 --arrays 1,64 --ahead 1,16,64 --loops 1,2 --seconds 2
