"""The machine that figures were measured on, and the memory of this process."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("pyspark", "duckdb", "pyarrow", "numpy")


@dataclass(frozen=True)
class Machine:
    """Processor, memory and versions."""

    processor: str
    cores: int
    memory_gib: float
    system: str
    versions: dict[str, str]

    @property
    def text(self) -> str:
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_gib:.0f} GiB of memory, "
            f"{self.system}; {versions}"
        )


def this_machine() -> Machine:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {"Python": platform.python_version(), "Java": _java_version()}
    versions |= {name: version(name) for name in _PACKAGES}
    return Machine(
        _processor(),
        os.cpu_count() or 1,
        memory / 2**30,
        f"{platform.system()} {platform.release().split('-')[0]}",
        versions,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _java_version() -> str:
    """The version as `java` itself states it, for example 17.0.11."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    try:
        found = subprocess.run([command, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stderr.split('"')[1]


def reset_peak_memory() -> None:
    """Let the peak begin at what is in use; where the system cannot, it is that of all time."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def peak_memory() -> int:
    """The greatest resident set since the last reset, in bytes."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        unit = 1 if platform.system() == "Darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmHWM:")) * 1024
