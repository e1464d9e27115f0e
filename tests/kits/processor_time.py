"""Processor time of a process and all it started: tells one that waits for nothing from one that is starved."""

import os
from pathlib import Path

_PARENT, _FIRST_TIME, _END_OF_TIMES = 1, 11, 15
"""Fields of ``/proc/PID/stat`` after the name: user and system time, its own and of children that ended."""


def processor_s(pid: int) -> float:
    """Seconds so far; 0 where the system does not tell."""
    fields_of = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields_of[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
    family, ticks = [pid], 0
    for member in family:
        ticks += sum(map(int, fields_of.get(member, [])[_FIRST_TIME:_END_OF_TIMES]))
        family += [one for one, fields in fields_of.items() if int(fields[_PARENT]) == member]
    return ticks / os.sysconf("SC_CLK_TCK")
