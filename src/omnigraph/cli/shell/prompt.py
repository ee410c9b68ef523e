"""The prompt at a terminal: several lines, completion, colours and a history.

The only module that needs prompt_toolkit, which is installed with the extra `shell`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.cli.output import note
from omnigraph.cli.shell.query_completion import Vocabulary, complete
from omnigraph.cli.shell.statements import Kind, is_complete, meaningful, tokens
from omnigraph.errors import BadRequest

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.lexers import Lexer

INDENT = "  "
KEYWORDS = frozenset(
    {"query", "match", "not", "return", "as", "order", "asc", "desc", "limit", "contains"}
    | {"starts_with", "insert", "update", "set", "delete", "where", "true", "false", "for", "in"}
    | {"and", "or", "is", "null", "exists", "optional", "distinct", "having", "offset", "by"}
    | {"ends_with", "upsert", "end", "assert", "at"}
)
COLOURS = {
    Kind.COMMENT: "ansibrightblack",
    Kind.STRING: "ansigreen",
    Kind.VARIABLE: "ansicyan",
    Kind.TYPE: "ansiyellow",
    Kind.NUMBER: "ansimagenta",
}
KEYWORD, LABEL = "ansiblue bold", "bold"


class Prompt:
    """Asks for statements at a terminal."""

    def __init__(self, names: Callable[[], Vocabulary], history: Path | None) -> None:
        try:
            from prompt_toolkit import PromptSession
            from prompt_toolkit.output import create_output
        except ImportError:
            raise BadRequest(
                "the prompt needs prompt_toolkit; install it with `pip install 'omnigraph[shell]'`, "
                "or pipe the statements in"
            ) from None
        self._session: PromptSession[str] = PromptSession(
            # Where stdout is a file, the prompt is drawn on stderr: stdout holds results only.
            output=create_output(always_prefer_tty=True),
            history=_history(history),
            completer=_completer(names),
            complete_while_typing=False,
            lexer=_lexer(),
            key_bindings=_keys(names),
            multiline=True,
            prompt_continuation=_continuation,
            enable_suspend=True,
        )

    def ask(self, label: str) -> str:
        """Return a text that holds whole statements.

        Raises ``EOFError`` for Ctrl-D at an empty prompt, and ``KeyboardInterrupt`` for Ctrl-C.
        """
        return self._session.prompt([(LABEL, f"{label}> ")])


def _continuation(width: int, _: int, wraps: int) -> str:
    """Return what stands left of each line but the first; nothing where a long line goes on."""
    return " " * width if wraps else f"{'.' * (width - 1)} "


def _history(path: Path | None) -> History:
    """Return the history in a file that only its owner can read, or one that is not kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        note(f"warning: the history is not kept: cannot write {path}: {error.strerror}")
        return InMemoryHistory()
    return FileHistory(path)


def _keys(names: Callable[[], Vocabulary]) -> KeyBindings:
    """Return what Tab, Enter and `}` do."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("tab")
    def _(event: KeyPressEvent) -> None:
        """Complete the word as far as that is clear; then show what is possible, then choose from it.

        The prompt's own completion runs in the background and is lost when the next key comes first.
        """
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
            return
        start, candidates = complete(buffer.text, buffer.cursor_position, names())
        typed = buffer.text[start : buffer.cursor_position]
        common = _common_start([candidate.text for candidate in candidates])
        if common.startswith(typed) and common != typed:
            buffer.insert_text(common.removeprefix(typed))
        elif len(candidates) == 1:
            buffer.delete_before_cursor(len(typed))
            buffer.insert_text(common)
        elif candidates:
            buffer.start_completion()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        """Run a text that is complete; in any other begin a new line, indented by its braces."""
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None  # take the completion that is chosen
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text(f"\n{INDENT * _depth(buffer.document.text_before_cursor)}")

    @keys.add("}")
    def _(event: KeyPressEvent) -> None:
        """Close a block; on a line of its own it stands below the beginning of the block."""
        buffer = event.current_buffer
        line = buffer.document.current_line_before_cursor
        if line and not line.strip():
            buffer.delete_before_cursor(len(line))
            outside = _depth(buffer.document.text_before_cursor) - 1
            buffer.insert_text(INDENT * max(0, outside))
        buffer.insert_text("}")

    return keys


def _common_start(texts: Sequence[str]) -> str:
    """Return what all texts begin with."""
    first, last = min(texts, default=""), max(texts, default="")
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((at for at, (sign, other) in pairs if sign != other), len(first))]


def _depth(text: str) -> int:
    """Return how many braces are open at the end of a text."""
    signs = [token.text for token in meaningful(text) if token.kind is Kind.SIGN]
    return max(0, signs.count("{") - signs.count("}"))


def _completer(names: Callable[[], Vocabulary]) -> Completer:
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.completion.base import CompleteEvent
    from prompt_toolkit.document import Document

    class NameCompleter(Completer):
        """Completes the word at the cursor."""

        def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
            cursor = document.cursor_position
            start, candidates = complete(document.text, cursor, names())
            for candidate in candidates:
                yield Completion(candidate.text, start - cursor, display_meta=candidate.about)

    return NameCompleter()


def _lexer() -> Lexer:
    from prompt_toolkit.document import Document
    from prompt_toolkit.lexers import Lexer

    class Coloured(Lexer):
        """Colours the tokens of a query."""

        def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
            lines = _coloured_lines(document.text)
            return lambda number: lines[number] if number < len(lines) else []

    return Coloured()


def _coloured_lines(text: str) -> list[StyleAndTextTuples]:
    """Return the lines of a text, each as pieces with their styles."""
    lines: list[StyleAndTextTuples] = [[]]
    is_dot = text.lstrip().startswith(".")
    for token in tokens(text):
        is_keyword = token.kind is Kind.WORD and token.text in KEYWORDS
        style = KEYWORD if is_keyword else COLOURS.get(token.kind, "")
        first, *others = token.text.split("\n")
        lines[-1].append(("" if is_dot else style, first))
        lines += [[("" if is_dot else style, other)] for other in others]
    return lines
