"""One writer per state directory.

The kernel's `flock` on the file `lock` decides, so a lock dies with its process and a dead owner
needs no clean-up; what the file says (process, host, start of the process) is for the person who
is refused. A forked child lets go of its copy, so that it neither writes nor keeps the lock alive.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path

from spark_incr.errors import error

_ATTEMPTS = 20
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Owner:
    """Who holds the lock; `started` is the start of the process in seconds since 1970."""

    pid: int
    host: str
    started: float | None


class Lock:
    """The exclusive right to write a state directory, held until `release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        _HELD.add(self)

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_HELD: weakref.WeakSet[Lock] = weakref.WeakSet()


def _release_in_child() -> None:
    for lock in list(_HELD):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)


def acquire(directory: Path) -> Lock:
    """Take the lock of a directory; INCR_STATE_LOCKED names the live process that has it."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _flock(descriptor, directory)
        text = json.dumps(asdict(Owner(os.getpid(), socket.gethostname(), _started(os.getpid()))))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode() + b"\n", 0)
    except BaseException:
        os.close(descriptor)
        raise
    return Lock(descriptor)


def _flock(descriptor: int, directory: Path) -> None:
    """Wait only while the file still names a process that is gone: its lock is being released, or
    the next owner has not signed yet."""
    for attempt in range(_ATTEMPTS):
        if _try_flock(descriptor):
            return
        owner = _owner(descriptor)
        if (owner and _alive(owner)) or attempt == _ATTEMPTS - 1:
            raise _locked(directory, owner)
        time.sleep(_PAUSE_SECONDS)


def _try_flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _locked(directory: Path, owner: Owner | None) -> Exception:
    if owner is None:
        return error("INCR_STATE_LOCKED", path=directory, pid="unknown")
    if owner.pid == os.getpid() and owner.host == socket.gethostname():
        return error(
            "INCR_STATE_LOCKED",
            path=directory,
            pid=owner.pid,
            detail="That is this process: a session of it works on the directory.",
            hint="Use that session, or call `spark_incr.disable` with it first.",
        )
    since = "" if owner.started is None else f", started {_clock(owner.started)}"
    return error(
        "INCR_STATE_LOCKED",
        path=directory,
        pid=owner.pid,
        detail=f"The process runs on host {owner.host}{since}.",
    )


def _owner(descriptor: int) -> Owner | None:
    try:
        value = json.loads(os.pread(descriptor, 4096, 0))
        return Owner(int(value["pid"]), str(value["host"]), value["started"])
    except (ValueError, KeyError, TypeError):
        return None


def _alive(owner: Owner) -> bool:
    """Whether the owner runs; a process of another host counts as running."""
    if owner.host != socket.gethostname():
        return True
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    started = _started(owner.pid)
    return started is None or owner.started is None or abs(started - owner.started) < 1


def _started(pid: int) -> float | None:
    """When a process of this host began, where the system tells (Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_bytes().splitlines()
            if line.startswith(b"btime")
        )
    except (OSError, StopIteration):
        return None
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
