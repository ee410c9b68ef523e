"""The choice of the engine of a load: this process, or Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph import settings
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.pipeline.engine import LoadEngine
from omnigraph.pipeline.load_options import LoadOptions
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.pipeline.local.local_engine import LocalEngine
from omnigraph.runner.executors import ENGINES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES_PER_MB = 1_000_000


def choose_engine(request: LoadPlan) -> tuple[LoadEngine, str | None]:
    """The engine of a load, and a sentence that says why, where the caller did not choose it.

    ``auto`` means Spark when a session or a master was given, when a frame is a Spark DataFrame, and
    when the input is large. Where Spark cannot start, ``auto`` falls back to the local engine and
    ``spark`` is refused. A session that was given and cannot be used is always refused.
    """
    from omnigraph.runner.session import spark_problem

    choice = request.options
    if choice.engine not in ENGINES:
        raise BadRequest(f"engine is {choice.engine!r}; give one of {', '.join(ENGINES)}")
    configured = (
        choice.spark is not None or choice.spark_master is not None or bool(choice.spark_conf)
    )
    if choice.engine == "local":
        if configured:
            raise BadRequest(
                "a Spark session, master or setting was given for a load on the local engine; "
                "leave it out, or load with engine `spark`"
            )
        return LocalEngine(), None
    given = choice.spark if choice.spark is not None else request.inputs.spark_session()
    if given is not None and (choice.spark_master is not None or choice.spark_conf):
        raise BadRequest(
            "a master or settings of Spark were given beside a session, which has its own; leave "
            "them out, or the session"
        )
    is_asked = choice.engine == "spark" or configured or given is not None
    reason = None if is_asked else _calls_for_spark(request)
    if not is_asked and reason is None:
        return LocalEngine(), None
    problem = None if given is not None else spark_problem()
    if problem is not None and choice.engine == "spark":
        raise BadRequest(f"{problem}; `engine=local` works without")
    if problem is None:
        try:
            engine = _spark_engine(choice, given)
        except OmniGraphError as failure:
            if choice.engine == "spark" or given is not None:
                raise
            problem = failure.message.partition("\n")[0]
        else:
            return engine, None if reason is None else f"this load ran on Spark: {reason}"
    return LocalEngine(), f"this load ran on the local engine: {problem}"


def _calls_for_spark(request: LoadPlan) -> str | None:
    """The reason to use Spark that lies in a setting or in the size of the input; None without one."""
    if settings.SPARK_MASTER.get() is not None:
        return f"{settings.SPARK_MASTER.variable} is set"
    size, threshold = request.inputs.size, settings.SPARK_THRESHOLD_MB.get()
    if size <= threshold * BYTES_PER_MB:
        return None
    return (
        f"the input has {size / BYTES_PER_MB:,.1f} MB, more than the {threshold} of "
        f"{settings.SPARK_THRESHOLD_MB.variable}"
    )


def _spark_engine(choice: LoadOptions, given: SparkSession | None) -> LoadEngine:
    from omnigraph.pipeline.spark.spark_engine import SparkEngine
    from omnigraph.runner.session import spark_session, usable_session

    if given is not None:
        return SparkEngine(usable_session(given))
    return SparkEngine(spark_session(choice.spark_master, choice.spark_conf))
