"""Prints the home of a Java that runs Spark, for the Makefile."""

import sys

from shardline.errors import ConfigurationError
from shardline.spark.java import java_home

try:
    sys.stdout.write(f"{java_home()}\n")
except ConfigurationError as error:
    sys.exit(str(error))
