"""Damaged and hostile variants of small sound files."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections.abc import Callable

NUMBERS = [
    value.to_bytes(width, order, signed=False)
    for width in (1, 2, 4, 8)
    for value in (0, 1, (1 << (8 * width - 1)) - 1, 1 << (8 * width - 1), (1 << (8 * width)) - 1)
    for order in ("little", "big")
]
TOKENS = [
    b"NaN", b"Infinity", b"-1", b"1e999", b"9" * 400, b"null", b"[" * 3000, b"{" * 300, b'"' * 3,
    b"&a [*a, *a]", b"*a", b"!!python/object/apply:os.system ['true']", b"<<: *a", b"2026-99-99",
    b"\x00", b"\x1b]0;x\x07", "\u202e".encode(), b"\xff\xfe", b"\r\n", b",", b"..", b"/etc/passwd",
    b"=1+1", b"(" * 50, b"1000000000", b"'descr': '|O'", b"True", b"{}", b"[]", b": ", b"- ", b"\t",
]  # fmt: skip
PICKLE = [
    b"cos\nsystem\n", b"\x85" * 2000, b"r\xff\xff\xff\x7f", b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x8b\xff\xff\xff\x7f", b"(", b"t", b"R", b"b", b"s", b"}", b"]", b"a", b"e", b"u", b"\x81",
    b"\x92", b"\x94", b"\x93", b"h\x00", b"j\xff\xff\xff\x00", b"Q", b"P0\n", b"\x82\x01", b"0",
    b"I" + b"9" * 5000 + b"\n", b"\x8f", b"\x90", b"\x91", b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
]  # fmt: skip


def mutate(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Return a variant of a file; archives are also changed inside, with checksums that fit."""
    if zipfile.is_zipfile(io.BytesIO(data)) and rng.random() < 0.6:
        changed = _inside_zip(data, rng, others)
    elif data[:1] != b"{" and data[8:9] == b"{" and rng.random() < 0.6:
        changed = _safetensors_header(data, rng)
    else:
        changed = data
        for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
            changed = rng.choice(_KINDS)(changed, rng, others)
    return changed[: 1 << 20]


def _place(data: bytes, rng: random.Random) -> int:
    """Return a position, more often near the start, where headers are."""
    limit = len(data) if rng.random() < 0.5 else min(len(data), 200)
    return rng.randrange(limit + 1)


def _flip(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    if not data:
        return data
    place = min(_place(data, rng), len(data) - 1)
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def _overwrite(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    place, value = _place(data, rng), rng.choice(NUMBERS)
    return data[:place] + value + data[place + len(value) :]


def _insert(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    place = _place(data, rng)
    return data[:place] + rng.choice(rng.choice((TOKENS, PICKLE, NUMBERS))) + data[place:]


def _replace(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    place, end = sorted((_place(data, rng), _place(data, rng)))
    return data[:place] + rng.choice(rng.choice((TOKENS, PICKLE))) + data[min(end, place + 12) :]


def _cut(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    return data[: _place(data, rng)]


def _remove(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    place, end = sorted((_place(data, rng), _place(data, rng)))
    return data[:place] + data[end:]


def _repeat(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    place, end = sorted((_place(data, rng), _place(data, rng)))
    return data[:end] + data[place:end] * rng.choice((1, 2, 50)) + data[end:]


def _splice(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    other = rng.choice(others)
    return data[: _place(data, rng)] + other[_place(other, rng) :]


Kind = Callable[[bytes, random.Random, list[bytes]], bytes]
_KINDS: list[Kind] = [_flip, _overwrite, _insert, _replace, _cut, _remove, _repeat, _splice]


def _inside_zip(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    for _ in range(rng.choice((1, 1, 2, 8))):
        members[name] = rng.choice(_KINDS)(members[name], rng, others)
    out = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(out, "w", method) as archive:
        for key, value in members.items():
            archive.writestr(key, value)
    return out.getvalue()


def _safetensors_header(data: bytes, rng: random.Random) -> bytes:
    (length,) = struct.unpack("<Q", data[:8])
    header = data[8 : 8 + length]
    for _ in range(rng.choice((1, 1, 2, 8))):
        header = rng.choice(_KINDS[:-1])(header, rng, [])
    return struct.pack("<Q", len(header)) + header + data[8 + length :]
