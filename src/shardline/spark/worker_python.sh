#!/bin/sh
# Runs SHARDLINE_PYTHON without Spark's zipped copy of pyspark on PYTHONPATH: see worker_python.py.
path=
IFS=:
for each in $PYTHONPATH; do
  case $each in
    */python/lib/pyspark.zip) ;;
    *) path=${path:+$path:}$each ;;
  esac
done
export PYTHONPATH="$path"
exec "$SHARDLINE_PYTHON" "$@"
