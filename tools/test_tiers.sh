#!/bin/sh
# Runs the tiers of tests that are named, in order, and ends with how long each one took.
# A tier runs in several processes: as many as it keeps two cores busy. WORKERS=0 makes it one.
set -u
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE # the processes that tests start would each compile all they import

processes() { # where a server or a session is dear, a file stays in one process
  case $1 in
    unit | property | simulation) echo "-n ${WORKERS:-2} --dist worksteal" ;;
    contract) echo "-n ${WORKERS:-3} --dist loadfile" ;;
    integration) echo "-n ${WORKERS:-3} --dist loadfile --no-loadscope-reorder" ;; # see its conftest
    spark) echo "-n ${WORKERS:-2} --dist loadfile" ;;
  esac
}

summary=""
for tier in "$@"; do
  started=$(date +%s)
  if [ -z "$(find "tests/$tier" -name 'test_*.py' 2>/dev/null)" ]; then
    verdict="has no tests yet"
  else
    printf '\n── tests/%s ──\n' "$tier"
    # shellcheck disable=SC2046  # options, to be split
    if .venv/bin/pytest -q $(processes "$tier") "tests/$tier"; then verdict="passed"; else verdict="FAILED"; fi
  fi
  summary=$(printf '%s\n  %-12s %5s s  %s' "$summary" "$tier" $(($(date +%s) - started)) "$verdict")
  [ "$verdict" = FAILED ] && break
done
printf '\nTiers:%s\n' "$summary"
[ "$verdict" != FAILED ]
