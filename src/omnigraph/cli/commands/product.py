"""`omnigraph examples`, `omnigraph skill` and `omnigraph version`: what is installed."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

import omnigraph
from omnigraph.cli.call import Invocation
from omnigraph.errors import BadRequest, StorageError
from omnigraph.skill import MAIN_PAGE, page_names, page_text
from omnigraph.spelling import did_you_mean
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__, version_text

PACKAGED = Path(omnigraph.__file__).parent / "examples"
IN_CLONE = Path(omnigraph.__file__).parents[2] / "examples"
"""Where they are if the package runs from a clone of the project."""
CHARTS = "charts.py"
"""Draws the plots of the examples; it lies beside their folders."""


def examples(
    call: Invocation,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to; it must be empty or not there yet.")
    ],
    only: Annotated[
        str | None, typer.Option("--only", metavar="NAME", help="Only the example of this name.")
    ] = None,
) -> None:
    """Write the example graphs: a schema, data, queries and a script of each; say how to run them."""
    folders = {folder.name: folder for folder in example_folders()}
    if only is not None and only not in folders:
        raise BadRequest(f"there is no example `{only}`; there are {', '.join(folders)}")
    names = list(folders) if only is None else [only]
    _refuse_file(directory)
    try:
        if directory.exists() and any(directory.iterdir()):
            raise BadRequest(f"{directory} is not empty; give a directory that is, or a new one")
        for name in names:
            # What running an example in the clone leaves behind is no part of it.
            shutil.copytree(folders[name], directory / name, ignore=shutil.ignore_patterns("__*__"))
        for folder in (folders[name] for name in names):
            if _draws(folder):
                shutil.copy(folder.parent / CHARTS, directory)
    except OSError as error:
        raise StorageError(f"cannot write the examples to {directory}: {error}") from error
    written = sorted(str(path) for path in directory.rglob("*") if path.is_file())
    run = [_how_to_run(directory / name) for name in names]
    lines = [f"  {command}{f'   # {needs}' if needs else ''}" for command, needs in run]
    call.answer(
        {"written": written, "run": [command for command, _ in run]},
        "\n".join(
            [
                *written,
                "",
                "run next (each folder has a README.md; omnigraph ui GRAPH shows the graph that was made):",
                *lines,
            ]
        ),
    )


def _draws(folder: Path) -> bool:
    """Return whether the script of an example draws charts."""
    script = folder / "run.py"
    return script.exists() and "from charts import" in script.read_text("utf-8")


def _how_to_run(folder: Path) -> tuple[str, str]:
    """Return the command that runs an example, and what it needs beside the package, if anything."""
    script = folder / "run.sh"
    command = ["sh", str(script)] if script.exists() else ["python", str(folder / "run.py")]
    readme = (folder / "README.md").read_text("utf-8").splitlines()
    needs = next((line for line in readme if line.startswith("Needs ")), "")
    return shlex.join(command), needs.replace("`", "").rstrip(".").replace("Needs", "needs", 1)


def example_folders() -> list[Path]:
    """Return the folders of the examples, by name."""
    root = PACKAGED if PACKAGED.is_dir() else IN_CLONE
    return sorted(path.parent for path in root.glob("*/schema.pg"))


def skill(
    call: Invocation,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A reference, or `list` for their names."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write all pages into a directory.")
    ] = None,
) -> None:
    """Print what an agent has to know to use omnigraph; write it into a directory of skills."""
    if out is not None:
        if name is not None:
            raise BadRequest(f"--out writes all pages; leave out `{name}`")
        written = _write_skill(out)
        call.answer({"written": written}, "\n".join(written))
    elif name == "list":
        call.answer({"references": page_names()}, "\n".join(page_names()))
    else:
        text = page_text() if name is None else page_text(name)
        if text is None:
            hint = did_you_mean(name or "", page_names()) or f"there are {', '.join(page_names())}"
            raise BadRequest(f"the skill has no page `{name}`; {hint}")
        call.answer({"name": name or MAIN_PAGE, "text": text}, text.rstrip("\n"))


def _write_skill(directory: Path) -> list[str]:
    written = []
    _refuse_file(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in (MAIN_PAGE, *page_names()):
            path = directory / f"{name}.md"
            path.write_text(page_text(name) or "", "utf-8")
            written.append(str(path))
    except OSError as error:
        raise StorageError(f"cannot write the skill to {directory}: {error}") from error
    return written


def _refuse_file(directory: Path) -> None:
    if directory.is_file():
        raise BadRequest(f"{directory} is a file; give a directory, or the name of a new one")


def version(call: Invocation) -> None:
    """Print the version, and that of the on-disk format."""
    document = {"version": __version__, "internal_schema_version": INTERNAL_SCHEMA_VERSION}
    call.answer(document, version_text())
