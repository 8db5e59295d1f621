"""`python -m bench.workload.touched MIB ARGUMENTS`: `shardline` in memory that was touched before.

The first write to a page of memory costs a virtual machine microseconds, as many as a record costs
the service that keeps it. So the service touches what it will need before it starts, and
keeps it (`KEEP_MEMORY`): what is measured is a reader, and not the memory of the machine.
"""

from __future__ import annotations

import sys
from typing import Final

from shardline.__main__ import main

_MIB: Final = 1 << 20

if __name__ == "__main__":
    touched = [b"x" * _MIB for _ in range(int(sys.argv.pop(1)))]
    del touched
    main()
