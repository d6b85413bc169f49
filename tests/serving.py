"""A server of ours as a process, for tests that meet it as clients."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from pyhive import hive


@dataclass
class Server:
    process: subprocess.Popen[str]
    state: Path
    thrift: int
    connect: int
    output: list[str]

    def cursor(self, schema: str = "default") -> hive.Cursor:
        return hive.connect("127.0.0.1", self.thrift, database=schema).cursor()


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start(state: Path, *options: str, cwd: Path | None = None) -> Server:
    thrift, connect = free_ports(2)
    command = [sys.executable, "-m", "spark_incr", "serve", "--state", str(state)]
    command += ["--thrift-port", str(thrift), "--connect-port", str(connect), *options]
    command += ["--conf", "spark.master=local[2]"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=cwd,
    )
    server = Server(process, state, thrift, connect, [])
    ready = threading.Event()

    def follow() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            server.output.append(line)
            if line.startswith("ready"):
                ready.set()
        ready.set()

    threading.Thread(target=follow, daemon=True).start()
    assert ready.wait(180), server.output
    assert process.poll() is None, server.output
    return server


def stop(server: Server) -> None:
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGTERM)
        try:
            server.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
