#!/bin/sh
# Runs the tiers of tests that are named, in order, and ends with how long each one took.
set -u
cd "$(dirname "$0")/.."
summary=""
for tier in "$@"; do
  printf '\n── tests/%s ──\n' "$tier"
  started=$(date +%s)
  .venv/bin/pytest -q "tests/$tier"
  status=$?
  took=$(($(date +%s) - started))
  case $status in
    0) verdict="passed" ;;
    5) verdict="has no tests yet" ;; # pytest's own code for that
    *) verdict="FAILED" ;;
  esac
  summary=$(printf '%s\n  %-12s %5s s  %s' "$summary" "$tier" "$took" "$verdict")
  [ "$verdict" = FAILED ] && break
done
printf '\nTiers:%s\n' "$summary"
[ "$verdict" != FAILED ]
