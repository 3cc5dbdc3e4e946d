"""Memory: the peak of a stretch of work in this process, and what the machine has."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_CLEAR: Final = Path("/proc/self/clear_refs")
_STATUS: Final = Path("/proc/self/status")
_RESET_PEAK: Final = "5"


_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")


def total_memory() -> int | None:
    """Bytes of memory that the machine, or the container, has; `None` where the platform does not tell."""
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):
        found.append(int(_CGROUP.read_text()))
    return min(found, default=None)


def reset_peak() -> None:
    """Start measuring; where the kernel cannot, the peak is the process's whole life."""
    with suppress(OSError):
        _CLEAR.write_text(_RESET_PEAK)


def read_peak() -> int | None:
    """Peak resident bytes since `reset_peak`, or `None` where the platform does not tell."""
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
