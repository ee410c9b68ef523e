"""Which engine runs a load: this process, or Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph import settings
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.pipeline.incoming import Engine
from omnigraph.pipeline.reading import LocalEngine
from omnigraph.pipeline.request import ENGINES, EngineChoice, LoadRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES_PER_MB = 1_000_000


def choose_engine(request: LoadRequest) -> tuple[Engine, str | None]:
    """The engine of a load, and where it is not the one to be expected, why.

    ``auto`` is Spark when a session or a master was given, when a frame is Spark's, and when the
    input is large. Without Java it is local, whatever the input; so it is when Spark does not start,
    unless the caller said which Spark to use.
    """
    from omnigraph.runner.session import spark_problem

    choice = request.engine
    if choice.engine not in ENGINES:
        raise BadRequest(f"engine is {choice.engine!r}; give one of {', '.join(ENGINES)}")
    configured = choice.spark is not None or choice.master is not None or bool(choice.conf)
    if choice.engine == "local":
        if configured:
            raise BadRequest(
                "a Spark session, master or setting was given for a load on the local engine; "
                "leave it out, or load with engine `spark`"
            )
        return LocalEngine(), None
    if choice.engine == "auto" and not configured and not _calls_for_spark(request):
        return LocalEngine(), None
    given = choice.spark if choice.spark is not None else request.inputs.spark_session()
    problem = None if given is not None else spark_problem()
    if problem is not None and choice.engine == "spark":
        raise BadRequest(f"{problem}; `engine=local` works without")
    if problem is None:
        try:
            return _spark_engine(choice, given), None
        except OmniGraphError as failure:
            if choice.engine == "spark" or configured or given is not None:
                raise
            problem = failure.message.partition("\n")[0]
    return LocalEngine(), f"this load ran on the local engine: {problem}"


def _calls_for_spark(request: LoadRequest) -> bool:
    inputs = request.inputs
    if settings.SPARK_MASTER.get() is not None or inputs.spark_session() is not None:
        return True
    return inputs.size > settings.SPARK_THRESHOLD_MB.get() * BYTES_PER_MB


def _spark_engine(choice: EngineChoice, given: SparkSession | None) -> Engine:
    from omnigraph.pipeline.spark_engine import SparkEngine
    from omnigraph.runner.session import spark_session, usable_session

    if given is not None:
        return SparkEngine(usable_session(given))
    return SparkEngine(spark_session(choice.master, choice.conf))
