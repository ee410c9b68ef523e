"""What callers hand to a graph, checked where it enters: refused with a sentence, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadRequest
from omnigraph.manifest.actors import check_actor
from omnigraph.manifest.branch_names import trim_branch_name

if TYPE_CHECKING:
    from omnigraph.pipeline.load_options import LoadOptions


def checked_load(options: Mapping[str, Any], actor: str | None) -> LoadOptions:
    """The options of a load; ``actor`` is who asks where they name nobody."""
    from omnigraph.pipeline.load_options import LoadOptions

    unknown = sorted(set(options) - {field.name for field in fields(LoadOptions)})
    if unknown:
        raise TypeError(f"a load takes no {', '.join(unknown)}")
    asked = LoadOptions(**options)
    check_spark(asked.spark_master, asked.spark_conf)
    return replace(
        asked,
        actor=actor if asked.actor is None else check_actor(asked.actor),
        rejects=checked_rejects(asked.rejects),
        progress=checked_progress(asked.progress),
        retries=checked_retries(asked.retries),
        branch=trim_branch_name(asked.branch),
        from_branch=None if asked.from_branch is None else trim_branch_name(asked.from_branch),
    )


def checked_retries(retries: object) -> int | None:
    """How often a lost race is run again: a whole number from 0 on, or None for as long as it pays."""
    if retries is None:
        return None
    # A truth value is an int to Python, and never what was meant.
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise BadRequest(f"retries is {retries!r}; give a whole number, 0 or more, or leave it out")
    return retries


def checked_rejects(rejects: object) -> Path | None:
    """The file that gets the bad records of a load."""
    if rejects is None or isinstance(rejects, Path):
        return rejects
    if not isinstance(rejects, str) or not rejects:
        raise BadRequest(f"rejects is {rejects!r}; give the path of the file for bad records")
    return Path(rejects)


def checked_progress(progress: Any) -> Any:
    """The function that a load tells its progress to."""
    if progress is not None and not callable(progress):
        raise BadRequest(
            f"a Python {type(progress).__name__} cannot be told the progress of a load; give a "
            "function of one argument"
        )
    return progress


def check_spark(master: object, conf: object) -> None:
    """Refuse a Spark master that is no text and settings that are none."""
    if master is not None and (not isinstance(master, str) or not master.strip()):
        raise BadRequest(f"spark_master is {master!r}; give a master as Spark knows it, `local[*]`")
    if conf is None:
        return
    if not isinstance(conf, Mapping) or not all(isinstance(k, str) for k in conf):
        raise BadRequest("spark_conf is a dict from the names of Spark's settings to their values")


def check_policy(policy: object) -> None:
    """Refuse a policy: none is enforced in this version, and one that is ignored protects nothing."""
    if policy is not None:
        raise BadRequest(
            "this version of omnigraph enforces no policy; leave policy out, and protect the graph "
            "with the permissions of its storage"
        )


def check_embedder(embedder: object) -> None:
    """Refuse what cannot embed: an embedder has a ``model`` and a method ``embed``."""
    if embedder is None:
        return
    if not hasattr(embedder, "model") or not callable(getattr(embedder, "embed", None)):
        raise BadRequest(
            f"a Python {type(embedder).__name__} is no embedder: it needs an attribute `model` and a "
            "method `embed(texts, dimension)`"
        )
