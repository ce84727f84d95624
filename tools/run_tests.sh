#!/usr/bin/env bash
# All tests: unit tests side by side, then the end-to-end tests with real processes and an unmodified JAX client.
set -euo pipefail
build=$1 venv=$2
cd "$(dirname "$0")/.."
(cd "$build" && ctest --output-on-failure -j "$(nproc)" --timeout 300)
"$venv/bin/python" -m unittest discover -s tests/tidy -p "*_test.py"
"$venv/bin/python" -m unittest discover -s tests/python -p "*_test.py"
"$venv/bin/python" -m unittest discover -s tests/e2e -p '*_test.py' -v
