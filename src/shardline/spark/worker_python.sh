#!/bin/sh
# Runs SHARDLINE_PYTHON without Spark's zipped copy of pyspark on PYTHONPATH, and Spark's daemon
# with what its workers need imported: see worker_python.py.
path=
IFS=:
for each in $PYTHONPATH; do
  case $each in
    */python/lib/pyspark.zip) ;;
    *) path=${path:+$path:}$each ;;
  esac
done
export PYTHONPATH="$path"
if [ "$1" = -m ] && [ "$2" = pyspark.daemon ]; then
  shift 2
  set -- -m shardline.spark.worker_daemon "$@"
fi
exec "$SHARDLINE_PYTHON" "$@"
