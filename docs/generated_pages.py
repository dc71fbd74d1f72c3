"""Pages that mkdocs makes from the source itself, so that they can be neither incomplete nor out of date."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import inspect
import io
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import revalued
from revalued.cli import main
from revalued.config import TrainConfig

PICTURES = Path(__file__).parents[1] / "results" / "figures"
MODULES = {
    "revalued.run.start": "Starting, resuming and evaluating runs with a `TrainConfig`; the commands call these.",
    "revalued.config": "Every setting as dataclasses; [all fields](settings.md) have a page of their own.",
    "revalued.training.callbacks": "What a run tells to code of yours, and how that code ends it.",
    "revalued.envs": "The only door to simulators.",
    "revalued.algorithms.presets": "Algorithms by name.",
    "revalued.algorithms.decompositions": "Ways to make a Q-value of utilities, and [how to add one](extend.md).",
    "revalued.ops.utilities": "Equations: choosing and combining.",
    "revalued.ops.targets": "Equations: learning targets.",
    "revalued.ops.losses": "Equations: TD loss and regulariser.",
    "revalued.ops.categorical": "Equations: categorical distributions.",
    "revalued.export": "A policy as one ONNX file.",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and the pictures of the results to the site; called by mkdocs."""
    for name, make in PAGES.items():
        files.append(File.generated(config, name, content=make()))
    for picture in sorted(PICTURES.glob("*.png")):
        files.append(File.generated(config, f"results/figures/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let pages, which link to pictures as they lie in the repository, find them on the site; called by mkdocs."""
    return markdown.replace("../results/figures/", "results/figures/")


def settings_page() -> str:
    """Return the page of all fields of `TrainConfig`."""
    parts = [
        "# Commands and settings",
        "One name, three places: a flag (`--env-steps 1000`), a keyword of the [agents](python.md) (`env_steps=1000`), "
        "and an entry of a run's `config.json`. A yes-or-no flag is switched off with `--no-`, such as "
        "`--no-prioritised`. Presets set some of the algorithm's fields; [their table](algorithms.md) says which.",
        "```text\n" + _usage() + "\n```",
        *_settings("The run", TrainConfig),
    ]
    for field, hint in typing.get_type_hints(TrainConfig).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            parts += _settings(field.capitalize(), hint)
    return "\n\n".join(parts) + "\n"


def _usage() -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        main(["--help"])
    return shown.getvalue().strip()


def _settings(title: str, kind: type[Any]) -> list[str]:
    notes = field_docstrings(kind)
    rows = ["| flag | default | |", "|---|---|---|"]
    for field in dataclasses.fields(kind):
        if field.name in notes:
            required = field.default is dataclasses.MISSING
            flag = field.name.upper() if required else "--" + field.name.replace("_", "-")
            default = "required" if required else "–" if field.default is None else f"`{field.default}`"
            rows.append(f"| `{flag}` | {default} | {_cell(notes[field.name])} |")
    return [f"## {title}", _cell(inspect.getdoc(kind) or ""), "\n".join(rows)]


def field_docstrings(kind: type[Any]) -> dict[str, str]:
    """Return the docstrings below the fields of a dataclass, which Python itself throws away."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, note in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant):
            found[field.target.id] = " ".join(str(note.value.value).split())
    return found


def reference_page() -> str:
    """Return the page of the public API."""
    parts = [
        "# Python API",
        "Made from the docstrings. [Python](python.md) shows how the pieces are used together.",
        "## `revalued`",
        *(_entry(name, getattr(revalued, name)) for name in revalued.__all__),
    ]
    for name, summary in MODULES.items():
        module = importlib.import_module(name)
        parts += [f"## `{name}`", summary, *(_entry(own, found) for own, found in public_names(module))]
    return "\n\n".join(parts) + "\n"


def public_names(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield what a module offers: what it lists in `__all__`, otherwise the functions and classes it defines."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__]
    for name in names:
        found = inspect.unwrap(getattr(module, name))  # of a cache
        if not name.startswith("_") and (inspect.isclass(found) or inspect.isfunction(found)):
            yield name, found


def _entry(name: str, found: Any) -> str:
    text = inspect.getdoc(found) or ""
    if inspect.isfunction(found):
        return f"### `{name}`\n\n{_code(f'def {name}{_signature(found)}')}\n\n{text}"
    parts = [f"### `{name}`"]
    if isinstance(found, type) and dataclasses.is_dataclass(found):
        notes = field_docstrings(found)
        rows = [f"- `{field.name}: {field.type}` {notes.get(field.name, '')}" for field in dataclasses.fields(found)]
        parts += [text, "\n".join(rows)]
    else:
        parts += [_code(f"class {name}{_signature(found.__init__)}"), text] if "__init__" in vars(found) else [text]
    return "\n\n".join(parts + list(_members(found)))


def _members(kind: type[Any]) -> Iterator[str]:
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"**`.{name}`** {inspect.getdoc(member) or ''}"
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            function = getattr(kind, name)
            yield f"{_code(f'.{name}{_signature(function)}')}\n\n{inspect.getdoc(function) or ''}"


def _signature(function: Callable[..., Any]) -> str:
    """Return parameters and result, one parameter to a line where they do not fit into one."""
    signature = inspect.signature(function)
    words = [_parameter(parameter) for parameter in signature.parameters.values() if parameter.name != "self"]
    keyword_only = [p for p in signature.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if keyword_only:
        words.insert(words.index(_parameter(keyword_only[0])), "*")
    result = (
        "" if signature.return_annotation in (inspect.Parameter.empty, "None", None) else signature.return_annotation
    )
    ending = f" -> {result}" if result else ""
    in_one_line = f"({', '.join(words)}){ending}"
    return in_one_line if len(in_one_line) < 80 else "(\n    " + ",\n    ".join(words) + f",\n){ending}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = (
        "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    )
    hint = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}{hint}"
    default = getattr(parameter.default, "__name__", None)
    return f"{parameter.name}{hint} = {'...' if default == '<lambda>' else parameter.default!r}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {"settings.md": settings_page, "reference.md": reference_page}
