"""The two languages as users call them: a ``str`` is source text, a ``Path`` is a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.errors import BadRequest

if TYPE_CHECKING:
    from omnigraph.lang.query.lint import LintReport
    from omnigraph.lang.schema import Compiled


_FILE: Final = re.compile(
    r"""(?!//|\#)              # no comment
    (?:[^\n{}()"'=<>]*\.(?:pg|gq|txt|graphql|cypher)
    |(?:~|\.{1,2})?/\S+       # a path from somewhere
    |[A-Za-z]:\\\S+)""",
    re.VERBOSE,
)
"""What no source looks like, and the name of a file does: schemas and queries end with a brace or a name."""


def parse_schema(schema: str | Path) -> Compiled:
    """Compile a schema and return it; its ``catalog`` holds the types.

    Raises ``ParseError`` or ``CatalogError`` with the place of the first error.
    """
    from omnigraph.lang.schema import compile_schema

    text, filename = read_source(schema)
    return compile_schema(text, filename)


def lint(schema: str | Path | Compiled, source: str | Path) -> LintReport:
    """Check every query of a source against a schema, without any data.

    Errors in the queries are in the report; an error in the schema is raised.
    """
    from omnigraph.lang.query.lint import lint as lint_text
    from omnigraph.lang.schema import Compiled

    text, filename = read_source(source)
    compiled = schema if isinstance(schema, Compiled) else parse_schema(schema)
    schema_source = {"kind": "file"}
    if isinstance(schema, Path):
        schema_source["path"] = str(schema)
    return lint_text(compiled.catalog, text, query_path=filename, schema_source=schema_source)


def read_source(source: str | Path) -> tuple[str, str | None]:
    """Return the text of a schema or query source, and the name of its file if it has one."""
    if isinstance(source, str):
        if _FILE.fullmatch(source.strip()):
            raise BadRequest(
                f"{source.strip()!r} is the name of a file, and a text is taken for the source itself; give "
                f"the file as pathlib.Path({source.strip()!r})",
                path=source.strip(),
            )
        return source, None
    if not isinstance(source, Path):
        raise BadRequest(
            f"a source is text (str) or a file (pathlib.Path), not {type(source).__name__}"
        )
    try:
        # Not `read_text`, which would turn CR LF into LF: an accepted source is kept as it was written.
        return source.read_bytes().decode("utf-8-sig"), str(source)
    except UnicodeDecodeError as error:
        raise BadRequest(
            f"{source} is not UTF-8 text (byte {error.start}); save it as UTF-8", path=str(source)
        ) from None
    except (OSError, ValueError) as error:  # ValueError: not a file name, such as one with a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise BadRequest(f"cannot read {source}: {reason}", path=str(source)) from error
