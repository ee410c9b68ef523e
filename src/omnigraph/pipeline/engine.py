"""Which engine runs a load: this process, or Spark."""

from __future__ import annotations

from omnigraph import settings
from omnigraph.errors import BadRequest
from omnigraph.pipeline.incoming import Engine
from omnigraph.pipeline.reading import LocalEngine
from omnigraph.pipeline.request import ENGINES, LoadRequest

BYTES_PER_MB = 1_000_000


def choose_engine(request: LoadRequest) -> tuple[Engine, str | None]:
    """The engine of a load, and where it is not the one to be expected, why.

    ``auto`` is Spark when a session or a master was given, when a frame is Spark's, and when the
    input is large; without Java it is local, whatever the input.
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
    problem = None if choice.spark is not None else spark_problem()
    if problem is None:
        return _spark_engine(request), None
    if choice.engine == "spark":
        raise BadRequest(f"{problem}; `engine=local` works without")
    return LocalEngine(), f"this load ran on the local engine: {problem}"


def _calls_for_spark(request: LoadRequest) -> bool:
    inputs = request.inputs
    if settings.SPARK_MASTER.get() is not None or inputs.spark_session() is not None:
        return True
    return inputs.size > settings.SPARK_THRESHOLD_MB.get() * BYTES_PER_MB


def _spark_engine(request: LoadRequest) -> Engine:
    from omnigraph.pipeline.spark_engine import SparkEngine
    from omnigraph.runner.session import spark_session

    choice = request.engine
    session = choice.spark or request.inputs.spark_session()
    return SparkEngine(spark_session(choice.master, choice.conf) if session is None else session)
