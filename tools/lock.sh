#!/bin/sh
# Pins every package with its hashes. No address of a registry gets in: pip uses the machine's own.
set -eu
cd "$(dirname "$0")/.."
uv=$1
compile() {
  out=$1
  shift
  "$uv" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-header --no-annotate "$@" --output-file "$out"
  echo "· $out: $(grep -c '==' "$out") packages"
}
compile locks/dev.txt --all-extras --group dev pyproject.toml
compile locks/docs.txt --group docs --constraints locks/dev.txt
compile locks/fuzz.txt --group fuzz
compile locks/java.txt --group java
compile locks/node.txt --group node
