#!/bin/sh
# Runs the tiers of tests that are named, in order, and ends with how long each one took.
set -u
cd "$(dirname "$0")/.."
summary=""
for tier in "$@"; do
  started=$(date +%s)
  if [ -z "$(find "tests/$tier" -name 'test_*.py' 2>/dev/null)" ]; then
    verdict="has no tests yet"
  else
    printf '\n── tests/%s ──\n' "$tier"
    if .venv/bin/pytest -q "tests/$tier"; then verdict="passed"; else verdict="FAILED"; fi
  fi
  summary=$(printf '%s\n  %-12s %5s s  %s' "$summary" "$tier" $(($(date +%s) - started)) "$verdict")
  [ "$verdict" = FAILED ] && break
done
printf '\nTiers:%s\n' "$summary"
[ "$verdict" != FAILED ]
