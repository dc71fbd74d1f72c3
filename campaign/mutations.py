"""Ways to damage a file: at random, and crafted so that it still looks right."""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

Mutation = Callable[[Path, Generator], str]
"""Damages a file and says how."""

NASTY: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 10**18, 10**400, 0.0, -0.0, 1e308, float("inf"), float("nan"),
    0.5, "", "x", "x" * 10_000, "\x00", "\ud800", "../../..", "/etc/passwd", "auto", "gym:evil_mod:Evil-v0",
    "gym:CartPole-v1", "toy-counting", "custom:mine", [], [[]], [1, 2, 3], [None], {}, {"a": 1}, {"b": "os.system"},
)  # fmt: skip

IRREGULAR = ("folder", "pipe", "endless", "loop", "nowhere")
"""What may stand where a file is expected."""


def flip_bytes(path: Path, rng: Generator) -> str:
    """Change a few bytes."""
    data = bytearray(path.read_bytes())
    for position in rng.integers(max(1, len(data)), size=int(rng.integers(1, 9))) if data else ():
        data[position] = rng.integers(256)
    path.write_bytes(data)
    return "bytes changed"


def truncate(path: Path, rng: Generator) -> str:
    """Cut the end off."""
    data = path.read_bytes()
    path.write_bytes(data[: int(rng.integers(len(data) + 1))])
    return "cut off"


def append(path: Path, rng: Generator) -> str:
    """Put something behind the end."""
    with path.open("ab") as file:
        file.write(rng.bytes(int(rng.integers(1, 200))))
    return "prolonged"


def empty(path: Path, rng: Generator) -> str:
    """Leave nothing in it."""
    path.write_bytes(b"")
    return "emptied"


def remove(path: Path, rng: Generator) -> str:
    """Take it away."""
    path.unlink()
    return "removed"


def make_irregular(path: Path, kind: str) -> None:
    """Put something else in a file's place."""
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"endless": "/dev/zero", "loop": path.name, "nowhere": "nowhere"}[kind])


def replace(path: Path, rng: Generator) -> str:
    """Put something else in its place."""
    kind = str(rng.choice(IRREGULAR))
    make_irregular(path, kind)
    return f"a {kind} in its place"


def nest(path: Path, rng: Generator) -> str:
    """Write JSON that is deeper than any reader goes."""
    depth = int(rng.choice([500, 5_000, 100_000]))
    path.write_text("[" * depth + "]" * depth if rng.random() < 0.5 else '{"a":' * depth + "1" + "}" * depth)
    return f"nested {depth:,} deep"


def change_json(path: Path, rng: Generator) -> str:
    """Change, remove or add one entry somewhere in a JSON file."""
    data = json.loads(path.read_text())
    places = list(_places(data))
    container, key = places[int(rng.integers(len(places)))]
    kind = str(rng.choice(["change", "change", "change", "remove", "add"]))
    value = NASTY[int(rng.integers(len(NASTY)))]
    if kind == "remove":
        del container[key]
    elif kind == "add" and isinstance(container, dict):
        container["unheard_of"] = value
    else:
        container[key] = value
    path.write_text(json.dumps(data))
    return f"{kind} {key!r}: {str(value)[:40]!r}"


def whole_json(path: Path, rng: Generator) -> str:
    """Write JSON of another kind."""
    value = NASTY[int(rng.integers(len(NASTY)))]
    path.write_text(json.dumps(value))
    return f"holds {str(value)[:40]!r}"


def change_array(path: Path, rng: Generator) -> str:
    """Write an array of another kind, size or content."""
    array = np.load(path, allow_pickle=False)
    kind = str(rng.choice(["type", "text", "size", "rank", "negative", "large", "nan", "none", "header", "pickle"]))
    changed: Any = array
    if kind == "type":
        changed = array.astype(str(rng.choice(["float16", "int8", "uint64", "complex64", "bool"])))
    elif kind == "text":
        changed = np.full(array.shape, "x")
    elif kind == "size":
        changed = array[: len(array) // 2] if array.ndim else array
    elif kind == "rank":
        changed = array[None]
    elif kind in ("negative", "large", "nan") and array.size:
        changed = array.astype(np.float64) if kind == "nan" and array.dtype.kind != "f" else array.copy()
        extreme = {"negative": -1, "large": 10**6, "nan": np.nan}[kind]
        with np.errstate(all="ignore"):
            changed.flat[int(rng.integers(array.size))] = np.asarray(extreme).astype(changed.dtype)
    elif kind == "none":
        changed = np.zeros((0, *array.shape[1:]), array.dtype)
    if kind == "header":
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    elif kind == "pickle":
        path.write_bytes(_with_objects())
    else:
        np.save(path, changed, allow_pickle=False)
    return f"array: {kind}"


def _with_objects() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], object), allow_pickle=True)
    return stream.getvalue()


def change_tensor(path: Path, rng: Generator) -> str:
    """Change one tensor of a safetensors file."""
    from safetensors.numpy import load_file, save_file

    tensors = load_file(path)
    name = sorted(tensors)[int(rng.integers(len(tensors)))]
    kind = str(rng.choice(["nan", "inf", "size", "type", "missing", "more", "huge"]))
    tensor = tensors[name].copy()
    if kind in ("nan", "inf", "huge"):
        tensor.flat[int(rng.integers(tensor.size))] = {"nan": np.nan, "inf": np.inf, "huge": 3e38}[kind]
        tensors[name] = tensor
    elif kind == "size":
        tensors[name] = np.ascontiguousarray(tensor[..., :1])
    elif kind == "type":
        tensors[name] = tensor.astype(np.float64)
    elif kind == "missing":
        del tensors[name]
    else:
        tensors["unheard.of"] = tensor
    save_file(tensors, path)
    return f"tensor {name}: {kind}"


def change_table(path: Path, rng: Generator) -> str:
    """Change a line of a CSV file."""
    lines = path.read_text().splitlines() or [""]
    row = int(rng.integers(len(lines)))
    kind = str(rng.choice(["drop", "double", "words", "commas", "zero", "bytes", "header"]))
    if kind == "drop":
        del lines[row]
    elif kind == "double":
        lines.insert(row, lines[row])
    elif kind == "words":
        lines[row] = ",".join(["x"] * (lines[row].count(",") + 1))
    elif kind == "commas":
        lines[row] = "," * int(rng.integers(40))
    elif kind == "zero":
        lines[row] += "\x00"
    elif kind == "header":
        lines[0] = "a,b,c"
    path.write_bytes("\n".join(lines).encode() + (b"\xff\xfe\n" if kind == "bytes" else b"\n"))
    return f"table: {kind}"


_ANY: tuple[Mutation, ...] = (flip_bytes, truncate, append, empty, remove, replace)
_BY_SUFFIX: dict[str, tuple[Mutation, ...]] = {
    ".json": (change_json, change_json, change_json, change_json, whole_json, nest),
    ".npy": (change_array, change_array, change_array),
    ".safetensors": (change_tensor, change_tensor, change_tensor),
    ".csv": (change_table, change_table, change_table),
}


def mutate(path: Path, rng: Generator) -> str:
    """Damage a file in one of the ways that fit it."""
    fitting = (*_ANY, *_BY_SUFFIX.get(path.suffix, ()))
    mutation = fitting[int(rng.integers(len(fitting)))]
    try:
        return mutation(path, rng)
    except Exception:  # whatever the libraries raise that read it here, without the checks of the package
        return empty(path, rng)  # damaged already, and not to be read any more


def sign(checkpoint: Path) -> None:
    """Make a checkpoint's checksums right again, as somebody would who wants the damage to be accepted."""
    manifest = checkpoint / "manifest.json"
    if not manifest.is_file():  # a pipe would never be read to its end
        return
    try:
        stated = json.loads(manifest.read_text())
        for name in list(stated):
            file = checkpoint / name
            if not file.is_file() or not (data := _read(file)):
                continue
            stated[name] = {"bytes": len(data), "crc32": zlib.crc32(data)}
        manifest.write_text(json.dumps(stated))
    except (ValueError, OSError, AttributeError, TypeError, RecursionError):
        return  # the manifest itself is what was damaged


def _read(file: Path) -> bytes:
    return b"" if file.is_symlink() else file.read_bytes()


def _places(data: Any) -> Any:
    """Yield every entry of nested JSON as its container and its key."""
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(entries):
        yield data, key
        yield from _places(value)
