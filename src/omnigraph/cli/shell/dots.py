"""The dot commands: their words, what they take, and their help."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.cli.formats import Format

Completes = str | tuple[str, ...] | None

HELP = """\
A statement is a query, and runs when its braces close:

  query adults() { match { $p: Person $p.age >= 18 } return { $p.name } limit 10 }
  query join($name: String) { insert Person { name: $name } }

Tab completes, Ctrl-C stops what runs or clears the line, Ctrl-D leaves.
"""


@dataclass(frozen=True, slots=True)
class Dot:
    """A dot command: its word, how its arguments are written, what it does, what completes them."""

    word: str
    takes: str
    about: str
    completes: Completes = None

    @property
    def usage(self) -> str:
        """The command as it is written."""
        return f"{self.word} {self.takes}".rstrip()


DOTS = (
    Dot(".help", "", "list these commands"),
    Dot(".branch", "[NAME]", "work on this branch; without a name, list the branches", "branch"),
    Dot(
        ".at",
        "[STATE]",
        "read BRANCH@VERSION, commit:ID, tag:NAME or time:T; without one, the head again",
        "target",
    ),
    Dot(".schema", "[TYPE]", "show the schema, or the declaration of one type", "type"),
    Dot(".params", "[JSON]", "set the parameters of statements; without JSON, show them"),
    Dot(
        ".format",
        "[FORMAT]",
        f"how rows are printed: {', '.join(Format)}",
        tuple(str(one) for one in Format),
    ),
    Dot(".explain", "[QUERY]", "show what a query would do; without one, the last query"),
    Dot(".profile", "[QUERY]", "run a query and show where the time goes; or the last query"),
    Dot(".load", "FILE [MODE]", "load JSON lines as one commit; append, merge, patch or overwrite"),
    Dot(".quit", "", "leave, as Ctrl-D does"),
)
