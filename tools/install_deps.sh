#!/usr/bin/env bash
# Installs what the build and the tests need and this machine lacks: Debian 12 packages, also those named after $1, and
# a Python environment in $1.
set -euo pipefail
venv=$1
shift
cd "$(dirname "$0")/.."

packages=(git g++ cmake ninja-build ccache mold pkg-config python3 python3-venv
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libabsl-dev
  libgtest-dev libgmock-dev libcli11-dev libfmt-dev libspdlog-dev libssl-dev libxxhash-dev libzstd-dev
  libopenblas-pthread-dev liblapacke-dev nlohmann-json3-dev "$@"
)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  echo "installing Debian packages: ${missing[*]}"
  sudo=()
  if ((EUID != 0)); then sudo=(sudo); fi
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
fi

python=$(command -v python3.11 || command -v python3)
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
  { echo "Python 3.11 is needed (Debian 12's python3), found $("$python" --version)" >&2; exit 1; }
stamp=$venv/installed.sha256
wanted=$(cat python/requirements*.txt | sha256sum)
if [[ ! -f $stamp || $(cat "$stamp") != "$wanted" ]]; then
  echo "installing Python packages into $venv"
  mkdir -p "$(dirname "$venv")"
  [[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r python/requirements.txt
  "$venv/bin/pip" install -q --disable-pip-version-check --no-deps --require-hashes -r python/requirements-engine.txt
  echo "$wanted" > "$stamp"
fi
