"""Check the arguments that callers pass to a graph; a wrong one is refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from omnigraph.errors import BadRequest
from omnigraph.maintenance.keeper import UpkeepMode
from omnigraph.manifest.actors import check_actor, check_message, check_operation_id
from omnigraph.manifest.branch_names import trim_branch_name, trim_written_branch
from omnigraph.read.limits import ReadLimits

if TYPE_CHECKING:
    from omnigraph.pipeline.load_options import LoadOptions


def check_load_options(options: Mapping[str, Any]) -> LoadOptions:
    """Return the checked options of a load."""
    from omnigraph.pipeline.load_options import LoadOptions

    unknown = sorted(set(options) - {field.name for field in fields(LoadOptions)})
    if unknown:
        raise TypeError(f"a load takes no {', '.join(unknown)}")
    asked = LoadOptions(**options)
    check_spark(asked.spark_master, asked.spark_conf)
    return replace(
        asked,
        actor=check_actor(asked.actor),
        rejects=check_rejects(asked.rejects),
        progress=check_progress(asked.progress),
        retries=check_retries(asked.retries),
        branch=trim_written_branch(asked.branch),
        from_branch=None if asked.from_branch is None else trim_branch_name(asked.from_branch),
        operation_id=check_operation_id(asked.operation_id),
        message=check_message(asked.message),
        check=check_flag("check", asked.check),
        first_bad=check_first_bad(asked.first_bad),
        embed=check_flag("embed", asked.embed),
    )


def check_first_bad(first_bad: object) -> int:
    """Return how many bad records are listed: a whole number from 1 to 1,000."""
    from omnigraph.pipeline.load_options import MOST_FIRST_BAD

    # True and False are ints in Python, but never meant as a number here.
    if (
        isinstance(first_bad, bool)
        or not isinstance(first_bad, int)
        or not 1 <= first_bad <= MOST_FIRST_BAD
    ):
        raise BadRequest(
            f"first_bad is {first_bad!r}; give a whole number from 1 to {MOST_FIRST_BAD:,}, or name a "
            "file of rejects, which gets all of them"
        )
    return first_bad


def check_limits(limits: object) -> ReadLimits:
    """Return the limits of a read."""
    if not isinstance(limits, ReadLimits):
        raise BadRequest(
            f"limits is a Python {type(limits).__name__}; give an omnigraph.ReadLimits"
        )
    return limits


def check_retries(retries: object) -> int | None:
    """Return how often a lost race is run again: 0 or more, or None for as long as time permits."""
    if retries is None:
        return None
    # True and False are ints in Python, but never meant as a number here.
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise BadRequest(f"retries is {retries!r}; give a whole number, 0 or more, or leave it out")
    return retries


def check_types(types: object) -> list[str] | None:
    """Return the names of types, given as a list; one text is refused, a list of letters is not meant."""
    if types is None:
        return None
    if isinstance(types, str) or not isinstance(types, Iterable):
        raise BadRequest(f"types is {types!r}; give a list of names of types, or leave it out")
    return [str(name) for name in types]


def check_flag(name: str, value: object) -> bool:
    """Return True or False; anything else is refused."""
    if not isinstance(value, bool):
        raise BadRequest(f"{name} is {value!r}; give True or False")
    return value


def check_limit(limit: object) -> int | None:
    """Return at most how many there shall be: a whole number from 1 on, or None for all."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise BadRequest(f"limit is {limit!r}; give a whole number from 1 on, or leave it out")
    return limit


def check_rejects(rejects: object) -> str | Path | None:
    """Return the path or the address of the file that gets the bad records of a load."""
    if rejects is None or isinstance(rejects, Path):
        return rejects
    if not isinstance(rejects, str) or not rejects:
        raise BadRequest(f"rejects is {rejects!r}; give the path of the file for bad records")
    return rejects


def check_progress(progress: Any) -> Any:
    """Return the function that long work calls with its progress."""
    if progress is not None and not callable(progress):
        raise BadRequest(
            f"progress is a Python {type(progress).__name__}, which cannot be called; give a function, "
            "or leave it out"
        )
    return progress


def check_spark(master: object, conf: object) -> None:
    """Refuse a Spark master that is not a text, and settings that are not a dict."""
    if master is not None and (not isinstance(master, str) or not master.strip()):
        raise BadRequest(f"spark_master is {master!r}; give a master as Spark knows it, `local[*]`")
    if conf is None:
        return
    if not isinstance(conf, Mapping) or not all(isinstance(k, str) for k in conf):
        raise BadRequest("spark_conf is a dict from the names of Spark's settings to their values")


def check_policy(policy: object) -> None:
    """Refuse an object that cannot decide: a policy has a method ``check``."""
    if policy is None:
        return
    if isinstance(policy, type) or not callable(getattr(policy, "check", None)):
        raise BadRequest(
            f"a Python {type(policy).__name__} is no policy: it needs a method `check(question)` that "
            "returns an `omnigraph.policy.Decision`"
        )


def check_embedder(embedder: object) -> None:
    """Refuse an object that cannot embed: an embedder has a ``model`` and a method ``embed``."""
    from omnigraph.embeddings.embedder import is_embedder

    if embedder is not None and not is_embedder(embedder):
        raise BadRequest(
            f"a Python {type(embedder).__name__} is no embedder: it needs an attribute `model` and a "
            "method `embed(texts, dimension, role)`, or without `role`"
        )


def check_upkeep(upkeep: object) -> UpkeepMode:
    """Return who waits for upkeep; anything but the three choices is refused."""
    if upkeep not in get_args(UpkeepMode):
        raise BadRequest(f'upkeep is {upkeep!r}; give "inline", "background" or "off"')
    return cast("UpkeepMode", upkeep)
