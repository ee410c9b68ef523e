"""The values of options as Spark hands them over: texts, whose names have no case.

Those that say how a store is reached (`s3.endpoint`, `s3.region` and others) are taken out first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from omnigraph.errors import BadRequest
from omnigraph.pipeline.formats.frame_layout import check_ends
from omnigraph.spelling import did_you_mean
from omnigraph.storage.store_kinds.known import STORE_KINDS, kind_of
from omnigraph.storage.store_kinds.store_kind import StoreOptions

_TRUTH = {"true": True, "false": False}
# Spark hands the options of a table over once more under names that begin with this.
_TABLE_OPTION = "option."


@dataclass(frozen=True, slots=True)
class EndOptions:
    """The names of the columns with the ids of an edge's two ends."""

    source: str = "from"
    target: str = "to"


def user_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return what the user gave, with lower-case names, as Spark compares them.

    For `CREATE TABLE` Spark adds what it knows of the table itself (`provider`, `owner`, …), and gives
    the user's own options once more under the names `option.…`.
    """
    given = {name.lower(): value for name, value in options.items()}
    if "provider" not in given:
        return given
    return {
        name.removeprefix(_TABLE_OPTION): value
        for name, value in given.items()
        if name.startswith(_TABLE_OPTION) or (name == "path" and "option.graph" not in given)
    }


def check_known(
    options: Mapping[str, str], known: Collection[str], what: str, ignored: Collection[str] = ()
) -> dict[str, str]:
    """Return the options that were given; refuse unknown ones."""
    given = user_options(options)
    for name in given:
        if name not in known and name not in ignored:
            hint = did_you_mean(name, [*known, *ignored]) or f"it takes {', '.join(known)}"
            raise BadRequest(f"a {what} of omnigraph takes no option `{name}`; {hint}", option=name)
    return given


def require(given: Mapping[str, str], name: str, instead: str = "") -> str:
    """Return an option that must be there; ``instead`` tells what else could have been meant."""
    value = given.get(name, "").strip()
    if not value:
        add = f'add .option("{name}", …)' + (f", {instead}" if instead else "")
        raise BadRequest(f"the option `{name}` is missing; {add}", option=name)
    return value


def graph_address(given: Mapping[str, str]) -> str:
    """Return the graph's address: the option `graph`, or the argument of `load` or `save`."""
    if "path" not in given:
        return require(given, "graph")
    if given.get("graph", given["path"]) != given["path"]:
        raise BadRequest(
            f"the option `graph` is {given['graph']!r} and the argument of load or save "
            f"{given['path']!r}; give one of them",
            option="graph",
        )
    return require(given, "path")


def whole_number(name: str, text: str, least: int = 0) -> int:
    """Return the number of an option."""
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text, re.ASCII) or int(text) < least:
        what = "a whole number" if not least else f"a whole number from {least} on"
        raise BadRequest(f"the option `{name}` is {text!r}; give {what}", option=name)
    return int(text)


def names_in(option: str, text: str) -> tuple[str, ...]:
    """Return the names of a list, each once."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise BadRequest(f"the option `{option}` is empty; give names, separated by commas")
    return names


def ends_of(given: Mapping[str, str]) -> EndOptions:
    """Return what the ends of an edge are called."""
    ends = EndOptions(given.get("from_col", "from"), given.get("to_col", "to"))
    check_ends(ends.source, ends.target)
    return ends


def truth_of(given: Mapping[str, str], name: str) -> bool:
    """Return whether an option is true; one that is not there is false."""
    value = _TRUTH.get(given.get(name, "false").strip().lower())
    if value is None:
        raise BadRequest(f"{name} is {given[name]!r}; give true or false")
    return value


def split_store_options(
    options: Mapping[str, str], registered: Mapping[str, StoreOptions] | None = None
) -> tuple[dict[str, str], StoreOptions | None]:
    """Return the options without those of the graph's store, and how that is reached.

    ``registered`` is how the process that registered the source reaches stores, by their scheme;
    options win over that.
    """
    addresses = [options[name] for name in options if name.lower() in ("graph", "path")]
    kind = next(filter(None, map(kind_of, addresses)), STORE_KINDS[0])
    prefix = f"{kind.scheme}."
    rest: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, value in options.items():
        bare = name.lower().removeprefix(_TABLE_OPTION)
        if bare.startswith(prefix):
            given[bare.removeprefix(prefix)] = value
        else:
            rest[name] = value
    store = kind.parse_options(given, f"option `{prefix}{{}}`".format) if given else None
    under = (registered or {}).get(kind.scheme)
    if store is None or under is None:
        return rest, store or under
    return rest, store.over(under)
