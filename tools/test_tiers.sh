#!/bin/sh
# Runs the tiers of tests that are named, in order, and ends with how long each one took.
# A tier runs in several processes: as many as it keeps two cores busy. WORKERS=0 makes it one.
set -u
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE # the processes that tests start would each compile all they import

processes() { # where a server or a session is dear, a file stays in one process
  case $1 in
    unit*) echo "-n ${WORKERS:-3} --dist worksteal" ;; # some wait while others calculate
    contract) echo "-n ${WORKERS:-3} --dist loadfile" ;;
    integration) echo "-n ${WORKERS:-3} --dist loadfile --no-loadscope-reorder" ;; # see its conftest
    spark) echo "-n ${WORKERS:-2} --dist loadfile" ;;
  esac
}

summary=""
for tiers in "$@"; do # unit+property: two tiers in one run
  started=$(date +%s)
  folders=$(echo "$tiers" | tr + '\n' | sed 's,^,tests/,')
  printf '\n── %s ──\n' "$tiers"
  # shellcheck disable=SC2046,SC2086  # options and folders, to be split
  if .venv/bin/pytest -q $(processes "$tiers") $folders; then verdict="passed"; else verdict="FAILED"; fi
  summary=$(printf '%s\n  %-26s %5s s  %s' "$summary" "$tiers" $(($(date +%s) - started)) "$verdict")
  [ "$verdict" = FAILED ] && break
done
printf '\nTiers:%s\n' "$summary"
[ "$verdict" != FAILED ]
