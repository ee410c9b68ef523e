"""Run statements on one graph, in the state that the dot commands before them chose."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.cli.call import Invocation
from omnigraph.cli.formats import Format
from omnigraph.cli.output import is_utf8_output, put
from omnigraph.cli.shared_options import read_params
from omnigraph.cli.shell import answers
from omnigraph.cli.shell.answers import declaration
from omnigraph.cli.shell.query_completion import Vocabulary
from omnigraph.cli.shell.shown_state import ShownState
from omnigraph.cli.shell.statements import DOTS, HELP, Statement, split_dot
from omnigraph.cli.sides.side import full_commit_id
from omnigraph.display.text import printable
from omnigraph.errors import BadRequest, ParamError
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.service import wire
from omnigraph.spelling import did_you_mean

if TYPE_CHECKING:
    from omnigraph.cli.address import Reachable
    from omnigraph.cli.sides.side import GraphSide
    from omnigraph.lang.query.syntax.ast import Query
    from omnigraph.lang.schema.catalog import Catalog


class ShellLeft(Exception):
    """`.quit` was given."""


class Shell:
    """An open graph, and what dot commands have set: the state looked at, parameters, format."""

    def __init__(
        self, call: Invocation, address: Reachable, side: GraphSide, branch: str | None
    ) -> None:
        self._call = call
        self._address = address
        self._side = side
        self._params: dict[str, Any] = {}
        self._format = Format(call.operator.defaults.output or Format.TABLE)
        self._last_read: str | None = None
        self._types: tuple[str, Catalog] | None = None
        self._looked_at = ShownState()
        self._look_at(ShownState() if branch is None else ShownState(branch))

    @property
    def uri(self) -> str:
        """The graph, as the user named it."""
        return self._address.uri

    @property
    def label(self) -> str:
        """The state looked at, as the prompt shows it."""
        return printable(self._looked_at.label)

    def names(self) -> Vocabulary:
        """Return the names of the graph, for completion."""
        return Vocabulary(self._catalog(), self._branches, self._tags)

    def _catalog(self) -> Catalog:
        from omnigraph.language import parse_schema

        source = self._source()
        if self._types is None or self._types[0] != source:
            self._types = source, parse_schema(source).catalog
        return self._types[1]

    def _source(self) -> str:
        source: str = self._side.ask("schema", wire.NoParameters())["schema_source"]
        return source

    def _branches(self) -> list[str]:
        names: list[str] = self._side.ask("branches", wire.NoParameters())["branches"]
        return names

    def _tags(self) -> list[str]:
        return [tag["name"] for tag in self._side.ask("tags", wire.NoParameters())["tags"]]

    def run(self, statement: Statement) -> None:
        """Run a query or a dot command; raise ``ShellLeft`` for `.quit`."""
        if not statement.is_dot:
            _refuse_without_dot(statement.text)
            try:
                self._run_query(statement.text)
            except ParamError as error:
                raise ParamError(f"{error.message}; .params sets it", **error.details) from None
            return
        word, rest = split_dot(statement.text)
        run = self._dots().get(word)
        if run is None:
            hint = did_you_mean(word, [dot.word for dot in DOTS]) or ".help lists them"
            raise BadRequest(f"there is no command `{printable(word)}`; {hint}")
        run(rest)

    def _dots(self) -> Mapping[str, Callable[[str], None]]:
        return {
            ".help": self._help,
            ".branch": self._branch,
            ".at": self._at,
            ".schema": self._schema,
            ".params": self._set_params,
            ".format": self._set_format,
            ".explain": self._explain,
            ".profile": self._profile,
            ".load": self._load,
            ".quit": self._quit,
        }

    # -------------------------------------------------------------- queries

    def _run_query(self, text: str) -> None:
        query = _only_query(text)
        if query.is_mutation:
            self._looked_at.refuse_past()
            answers.put_mutation(self._side, text, self._params_of(query), self._looked_at.branch)
        else:
            self._last_read = text
            answers.put_rows(
                self._call,
                self._side,
                text,
                self._params_of(query),
                self._looked_at.values,
                self._format,
            )

    def _params_of(self, query: Query) -> dict[str, Any]:
        """Return those of the parameters set that the query declares."""
        declared = {param.name for param in query.params}
        return {name: value for name, value in self._params.items() if name in declared}

    def _explain(self, text: str) -> None:
        text = self._text_or_last(text)
        answers.put_explained(self._side, text, None, self._looked_at.values, profile=False)

    def _profile(self, text: str) -> None:
        text = self._text_or_last(text)
        params = self._params_of(_only_query(text))
        answers.put_explained(self._side, text, params, self._looked_at.values, profile=True)

    def _text_or_last(self, text: str) -> str:
        """Return the text of a query, or that of the last one where none is given."""
        if text:
            self._last_read = text
        if self._last_read is None:
            raise BadRequest("no query has been run yet; write one behind the command")
        return self._last_read

    # -------------------------------------------------------------- state

    def _look_at(self, state: ShownState) -> None:
        """Look at a state from now on, if there is such a state."""
        self._side.ask("snapshot", wire.TargetParameters(**state.values))
        self._looked_at = state

    def _branch(self, name: str) -> None:
        if name:
            self._look_at(ShownState(name))
            return
        here = self._looked_at.branch
        put("\n".join(f"{'*' if name == here else ' '} {name}" for name in self._branches()))

    def _at(self, word: str) -> None:
        if word.startswith("commit:"):  # the whole id, where only its beginning was given
            word = f"commit:{full_commit_id(self._side, word)}"
        self._look_at(self._looked_at.at(word))

    def _set_params(self, text: str) -> None:
        if not text:
            put(json.dumps(self._params, ensure_ascii=not is_utf8_output()))
            return
        given = read_params(text, None)
        if not isinstance(given, dict):
            raise BadRequest(
                'the parameters are no JSON object; write .params {"name": "ada"}, say'
            )
        self._params = given

    def _set_format(self, word: str) -> None:
        if not word:
            put(self._format)
        elif word in list(Format):
            self._format = Format(word)
        else:
            raise BadRequest(f"there is no format `{printable(word)}`; write {', '.join(Format)}")

    # -------------------------------------------------------------- others

    def _help(self, _: str) -> None:
        width = max(len(dot.usage) for dot in DOTS)
        put("\n".join([HELP, *(f"{dot.usage:<{width}}  {dot.about}" for dot in DOTS)]))

    def _schema(self, name: str) -> None:
        source = self._source()
        put(declaration(source, name) if name else source)

    def _load(self, text: str) -> None:
        self._looked_at.refuse_past()
        answers.put_load(
            self._call, self._address, self._side, _words(text), self._looked_at.branch
        )

    def _quit(self, _: str) -> None:
        raise ShellLeft


def _refuse_without_dot(text: str) -> None:
    """Refuse `quit`, `help` and their like, with the command that is meant."""
    word = {"exit": "quit"}.get(text, text)
    if any(dot.word == f".{word}" for dot in DOTS):
        raise BadRequest(f"commands begin with a dot: write .{word}")


def _only_query(text: str) -> Query:
    """Return the query of a statement, behind the one it uses; raise if it is no query."""
    return parse(text).queries[-1]


def _words(text: str) -> list[str]:
    """Return the words of a dot command, quoted as in a shell."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadRequest(f"cannot read `{printable(text)}`: {error}") from None
