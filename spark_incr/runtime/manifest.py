"""Manifests: what one version of the state consists of, and the segments that it names.

A manifest is one JSON object whose first member is the checksum of every byte after it, so that
damage anywhere is told from an older or newer format. Its body is the caller's; a segment in it
has a form of its own, `{"$segment": [file, offset, length, checksum]}`, which is found in the
encoded text: quotes inside JSON strings are escaped, so no string can look like a segment.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from spark_incr.errors import error

FORMAT = 2
_READ = (1, FORMAT)

_FILE = r"data-([0-9]{20})-[0-9a-f]{8}\.arrow"
DATA_NAME = re.compile(_FILE)
MANIFEST_NAME = re.compile(r"manifest-([0-9]{20})\.json")
TEMPORARY_NAME = re.compile(r"manifest-[0-9]{20}\.json\.tmp")

_SEGMENT = re.compile(rf'\{{"\$segment":\["({_FILE})",([0-9]+),([0-9]+),([0-9]+)\]\}}')
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
_ENVELOPE = re.compile(rb'\{"crc32":"([0-9a-f]{8})",')


@dataclass(frozen=True)
class Segment:
    """One Arrow IPC stream inside a data file; `checksum` is the CRC-32 of its bytes."""

    file: str
    offset: int
    length: int
    checksum: int

    def to_json(self) -> dict[str, object]:
        return {"$segment": [self.file, self.offset, self.length, self.checksum]}

    @staticmethod
    def from_json(value: Mapping[str, object]) -> Segment:
        """The inverse of `to_json`; anything else is a ValueError.

        >>> s = Segment("data-00000000000000000007-0a1b2c3d.arrow", 0, 128, 99)
        >>> Segment.from_json(s.to_json()) == s
        True
        """
        match value:
            case {"$segment": [str(file), int(offset), int(length), int(checksum)]} if len(
                value
            ) == 1 and DATA_NAME.fullmatch(file):
                return Segment(file, offset, length, checksum)
        raise ValueError(f"not a segment: {value!r}")


@dataclass(frozen=True)
class Manifest:
    """One committed version; `body` is JSON and must not be changed after the commit."""

    version: int
    timestamp_ms: int
    body: dict[str, object]


EMPTY = Manifest(0, 0, {})


def manifest_name(version: int) -> str:
    return f"manifest-{version:020d}.json"


def temporary_name(version: int) -> str:
    return manifest_name(version) + ".tmp"


def data_name(version: int, token: str) -> str:
    return f"data-{version:020d}-{token}.arrow"


def data_version(file: str) -> int:
    """The version that wrote a data file."""
    match = DATA_NAME.fullmatch(file)
    if match is None:
        raise ValueError(f"not a data file: {file!r}")
    return int(match[1])


def encode_body(body: Mapping[str, object]) -> str:
    return _ENCODER.encode(body)


def encode(version: int, timestamp_ms: int, body: str) -> bytes:
    """The bytes of a manifest around an encoded body."""
    rest = (
        f'"format":{FORMAT},"version":{version},"timestamp_ms":{timestamp_ms},"body":{body}}}\n'
    ).encode("ascii")
    return b'{"crc32":"%08x",' % zlib.crc32(rest) + rest


def decode(data: bytes, version: int) -> Manifest:
    """The manifest in `data`, which was found under the name of `version`."""
    envelope = _ENVELOPE.match(data)
    if envelope is None:
        raise _corrupt(version, "it does not begin with a checksum")
    if zlib.crc32(memoryview(data)[envelope.end() :]) != int(envelope[1], 16):
        raise _corrupt(version, "its checksum differs")
    value = json.loads(data)
    if value["format"] not in _READ:
        raise error("INCR_STATE_FORMAT", found=value["format"], known=" and ".join(map(str, _READ)))
    if value["version"] != version:
        raise _corrupt(version, f"it holds version {value['version']}")
    return Manifest(version, value["timestamp_ms"], value["body"])


def segments(body: str) -> set[Segment]:
    """The segments that an encoded body names."""
    return {
        Segment(file, int(offset), int(length), int(checksum))
        for file, _, offset, length, checksum in _SEGMENT.findall(body)
    }


def live_bytes(body: str) -> dict[str, int]:
    """The data files that an encoded body names, and how many bytes of each."""
    live: dict[str, int] = {}
    for file, _, _, length, _ in set(_SEGMENT.findall(body)):
        live[file] = live.get(file, 0) + int(length)
    return live


def _corrupt(version: int, what: str) -> Exception:
    return error(
        "INCR_STATE_CORRUPT",
        file=manifest_name(version),
        what=what,
        detail="No older version is read in its place, since it would lose what was committed.",
    )
