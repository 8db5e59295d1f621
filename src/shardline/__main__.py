"""`python -m shardline` is `shardline`."""

from shardline.cli import main

main()
