"""Options that commands share: the state they look at, query texts, parameters and resolutions, durations."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypedDict

import typer

from omnigraph.cli.formats import Format
from omnigraph.cli.sides.side import WriteConditions
from omnigraph.cli.words import GRAPH_HELP
from omnigraph.errors import BadRequest, ParamError, SourceError
from omnigraph.manifest.actors import check_if_commit, check_operation_id
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.service.documents import TargetValues


UriArgument = Annotated[str | None, typer.Argument(metavar="URI", help=GRAPH_HELP)]
UriOption = Annotated[str | None, typer.Option("--uri", metavar="URI", hidden=True)]
"""An older spelling of ``--store``, of commands that take names."""
BranchOption = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="The branch, `main` by default.")
]
MessageOption = Annotated[
    str | None,
    typer.Option(
        "-m", "--message", metavar="TEXT", help="What the commit is for; the log shows it."
    ),
]
OperationOption = Annotated[
    str | None,
    typer.Option("--operation-id", metavar="ULID", help="An id of yours to find the commit by."),
]
IfCommitOption = Annotated[
    str | None,
    typer.Option("--if-commit", metavar="ID", help="Only if the branch is at this commit."),
]
SchemaOption = Annotated[Path, typer.Option("--schema", metavar="FILE", help="The schema (.pg).")]
SnapshotOption = Annotated[
    str | None, typer.Option("--snapshot", metavar="ID", help="The state at this commit.")
]
TagOption = Annotated[
    str | None, typer.Option("--tag", metavar="NAME", help="The state that this tag names.")
]
AtVersionOption = Annotated[
    int | None,
    typer.Option("--at-version", metavar="N", help="The branch as it was at this version."),
]
AtTimeOption = Annotated[
    str | None,
    typer.Option(
        "--at-time",
        metavar="T",
        help="The branch as it was at this time: a date (its end, UTC), or a date and time.",
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="T",
        help="What holds at this moment: a date (its midnight, UTC), a date and time, or `ever`.",
    ),
]
STDIN = "-"
QueryNameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="The query, where the source has several.")
]
QueryOption = Annotated[
    str | None, typer.Option("--query", metavar="FILE", help="The queries (.gq); - reads stdin.")
]
InlineOption = Annotated[
    str | None,
    typer.Option(
        "-e", "--query-string", metavar="TEXT", help="The query itself, instead of a file."
    ),
]
ParamsOption = Annotated[
    str | None, typer.Option("--params", metavar="JSON", help="The parameters, a JSON object.")
]
ParamsFileOption = Annotated[
    str | None,
    typer.Option("--params-file", metavar="FILE", help="The parameters in a file; - reads stdin."),
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="How the rows are printed, `table` by default.")
]
ResolveOption = Annotated[
    str | None,
    typer.Option(
        "--resolve",
        metavar="ours|theirs|FILE",
        help="Decide conflicts: ours keeps the target's state, theirs takes the other side's, a JSON "
        "file decides entity by entity (- reads stdin).",
    ),
]
TimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--timeout", metavar="DUR", help="Give up after this time: a number and s, m, h, d or w."
    ),
]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
"""The units of a duration such as `30s` or `7d`, in seconds."""


@dataclass(frozen=True, slots=True)
class CommitFlags:
    """What a command that makes a commit says about it."""

    message: MessageOption = None
    operation_id: OperationOption = None

    def read(self) -> CommitValues:
        """Return them as a request has them."""
        return {"message": self.message, "operation_id": self._checked_id()}

    def _checked_id(self) -> str | None:
        """Return the operation id; refuse what is no ULID, before a graph is opened or a server asked."""
        return check_operation_id(self.operation_id)

    def conditions(
        self, if_commit: str | None = None, if_match: str | None = None
    ) -> WriteConditions:
        """Return what is said beside a request that has the message itself."""
        return WriteConditions(
            operation_id=self._checked_id(), if_commit=check_if_commit(if_commit), if_match=if_match
        )


class CommitValues(TypedDict):
    """The arguments of a request that ``CommitFlags`` gives."""

    message: str | None
    operation_id: str | None


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Flags of a command that reads one state of a graph."""

    branch: BranchOption = None
    snapshot: SnapshotOption = None
    tag: TagOption = None
    at_version: AtVersionOption = None
    at_time: AtTimeOption = None

    def read(self) -> TargetValues:
        """Return the target as a request takes it.

        A commit id or a tag stands alone: it already determines the branch and the version.
        """
        on_branch = (self.branch, self.at_version, self.at_time)
        alone = {"--snapshot": self.snapshot, "--tag": self.tag}
        given = [flag for flag, value in alone.items() if value is not None]
        if len(given) > 1:
            raise typer.BadParameter("--snapshot excludes --tag")
        if given and any(value is not None for value in on_branch):
            raise typer.BadParameter(f"{given[0]} excludes --branch, --at-version and --at-time")
        if self.at_version is not None and self.at_time is not None:
            raise typer.BadParameter("--at-version excludes --at-time")
        return {
            "branch": self.branch,
            "snapshot": self.snapshot,
            "version": self.at_version,
            "tag": self.tag,
            "time": self.at_time,
        }


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Flags of a command that runs or explains one query: its source, name and parameters."""

    name: QueryNameArgument = None
    query: QueryOption = None
    inline: InlineOption = None
    params: ParamsOption = None
    params_file: ParamsFileOption = None

    @property
    def stored(self) -> str | None:
        """The name of a stored query of a server: one without a source."""
        if self.name is None or self.query is not None or self.inline is not None:
            return None
        if "{" in self.name:
            raise BadRequest("an argument looks like the text of a query; write it after -e")
        return self.name

    def refuse_stored(self) -> None:
        """Refuse a name without a source, where a stored query cannot be."""
        if self.stored is not None:
            raise BadRequest(
                f"`{self.name}` without a source would be a stored query of a server, which cannot be "
                "explained; pass the source with --query FILE or -e TEXT"
            )

    def read(self) -> tuple[str, Any]:
        """Return the text of the source, and the parameters (a JSON value or None)."""
        source, params = self._source(), read_params(self.params, self.params_file)
        if not isinstance(params, dict | None):
            raise ParamError("params must be a JSON object keyed by parameter name")
        return source, params

    def named_in_errors(self) -> AbstractContextManager[None]:
        """Let errors in the source name the file that it came from."""
        return naming_file(None if self.query in {None, STDIN} else self.query)

    def _source(self) -> str:
        """Return the query text; refuse contradicting flags."""
        if self.query is not None and self.inline is not None:
            raise typer.BadParameter("--query excludes -e")
        if self.query == self.params_file == STDIN:
            raise typer.BadParameter("--query - excludes --params-file -: stdin is read once")
        if self.inline is not None:
            if not self.inline.strip():
                raise BadRequest("-e is blank; give the text of a query")
            return self.inline
        if self.query is None:
            raise BadRequest("there is no query; pass --query FILE or -e TEXT")
        return read_stdin("--query") if self.query == STDIN else read_file(self.query)


def checked_state(text: str) -> str:
    """Return a word that names a state of the graph; refuse one that cannot, before a graph is opened."""
    from omnigraph.manifest.snapshot import Target

    Target.of_text(text)
    return text


def read_params(text: str | None, file: str | None) -> Any:
    """Return the parameters as a JSON value, or None if there are none."""
    if text is not None and file is not None:
        raise typer.BadParameter("--params excludes --params-file")
    if file is not None:
        text = read_stdin("--params-file") if file == STDIN else read_file(file)
    if text is None:
        return None
    return _decode(text, "parameters", "give an object keyed by parameter name")


def read_resolve(given: str | None) -> Any:
    """Return what ``--resolve`` says: a word, or the list of resolutions of a file as JSON has them."""
    from omnigraph.write.merge.resolutions import WORDS, resolve_from_json

    if given is None or given in WORDS:
        return given
    if given != STDIN and not Path(given).exists():
        raise BadRequest(
            f"--resolve is `{given}`, which is neither ours nor theirs nor a file; write the "
            "resolutions to a file and name it"
        )
    text = read_stdin("--resolve") if given == STDIN else read_file(given)
    form = 'give {"resolutions": [{"table_key": …, "row_id": …, "image": … or "take": …}]}'
    document = _decode(text, "resolutions", form)
    if not isinstance(document, dict):
        raise BadRequest(f"the resolutions are no JSON object; {form}")
    resolve_from_json(document)  # a wrong decision is refused before a graph is opened
    return document["resolutions"]


def read_resolve_schema(given: Sequence[str] | None) -> Any:
    """Return what ``--resolve-schema`` says: a word for all, or a word for each element."""
    from omnigraph.lang.schema.merge.resolution_words import Words

    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        Words(given[0])  # refuses another word before a graph is opened
        return given[0]
    words: dict[str, str] = {}
    for one in given:
        element, equals, word = one.rpartition("=")
        if not equals or element in words:
            why = "is named twice" if equals else "has no `=`"
            raise typer.BadParameter(
                f"--resolve-schema {one!r}: {element or one!r} {why}; give ours or theirs alone, or ELEMENT=WORD "
                "for each element"
            )
        words[element] = word
    Words(words)
    return words


def step_lines(steps: Sequence[Document]) -> list[str]:
    """Return a line for each step of a schema change."""
    from omnigraph.lang.schema.migrate.read_steps import step_texts

    return [f"  {text}" for text in step_texts({"steps": steps})]


def _decode(text: str, what: str, form: str) -> Any:
    """Read JSON that a user wrote; ``form`` says what it should be."""
    try:
        return json.loads(text, object_pairs_hook=partial(_refuse_repeated_keys, what))
    except RecursionError:
        raise BadRequest(f"the {what} nest too deep; {form}") from None
    except ValueError as error:  # also raised for an integer of thousands of digits
        raise BadRequest(f"the {what} are not JSON ({error}); {form}") from None


def _refuse_repeated_keys(what: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object, unless it gives a key twice: JSON would silently drop one of the values."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"the {what} give `{twice}` twice; leave one out")
    return members


def read_file(path: str | Path) -> str:
    """Return the text of a file."""
    from omnigraph.language import read_source

    return read_source(Path(path))[0]


@contextmanager
def naming_file(path: str | Path | None) -> Iterator[None]:
    """Let errors in a source that was read from this file show where it is."""
    try:
        yield
    except SourceError as error:
        error.filename = error.filename or (None if path is None else str(path))
        raise


def read_stdin(flag: str) -> str:
    """Return all of standard input as text."""
    try:
        return open_stdin(flag).read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"stdin is not UTF-8 text (byte {error.start}); pipe UTF-8 in") from None


def open_stdin(flag: str) -> BinaryIO:
    """Return standard input as a stream of bytes."""
    if sys.stdin is None:
        raise BadRequest(f"{flag} is - and stdin is closed; pipe the input in, or give a file")
    return sys.stdin.buffer


def time_limit(given: str | None) -> int | None:
    """Return the seconds that `--timeout` gives; None if it is not given."""
    if given is None:
        return None
    seconds = seconds_of("--timeout", given, "30s")
    if not seconds:
        raise BadRequest(
            f'--timeout is "{given}"; give a time above 0, such as 30s, or leave it out'
        )
    return seconds


def seconds_of(flag: str, text: str, example: str) -> int:
    """Return the seconds that a duration means; ``example`` is one that makes sense for the flag."""
    written = re.fullmatch(r"([0-9]{1,18})([smhdw])", text.strip())
    if written is None:
        raise BadRequest(
            f'{flag} is "{text}"; write a whole number and s, m, h, d or w, such as {example}'
        )
    return int(written[1]) * UNITS[written[2]]
