"""What every test shares: nothing from the surroundings of the machine."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.cli.running import Launcher
from tests.conformance.summary import count_cases
from tests.measured import note_end, print_measured
from tests.sampling import deselect, deselect_cases, examples, header

# A test asserts behaviour, never a clock, and gives the same verdict again: `./dev faults --all` tries other inputs.
settings.register_profile(
    "calm",
    parent=settings(),
    deadline=None,
    max_examples=examples(100),
    derandomize="FAULTS_ALL" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("calm")

# A run in the background of a shell ignores Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Eighteen thousand tests stay until the end: looking whether they are garbage takes a third of the collection.
gc.disable()

KEYS_OF_PROVIDERS = {"OPENROUTER_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"}
"""A test with one of them would send its texts away and have them billed."""


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests start without the product's variables, so that a developer's shell changes nothing."""
    for name in list(os.environ):
        if name.startswith("OMNIGRAPH_") or name in KEYS_OF_PROVIDERS:
            monkeypatch.delenv(name)
    # What large graphs leave in the user's cache directory would stay there.
    monkeypatch.setenv("OMNIGRAPH_DISK_CACHE_MB", "0")


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """Runs command lines in children of a process that has everything loaded."""
    launcher = Launcher(tmp_path_factory.mktemp("launcher"))
    yield launcher
    launcher.stop()


@pytest.hookimpl(trylast=True)  # The reporter is made in this hook, too.
def pytest_configure(config: pytest.Config) -> None:
    """A run of several workers prints lines instead of dots."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        from tests.progress import Progress

        config.pluginmanager.register(Progress(config.pluginmanager.get_plugin("terminalreporter")))


def pytest_report_header() -> str:
    """Say which cases of wide tests run."""
    return header()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what only `./dev faults` runs, and in `./dev test --quick` all that takes long."""
    from tests.scheduling import is_left_out

    path = collection_path.relative_to(config.rootpath).as_posix()
    # None: others may have reasons to leave it out.
    return is_left_out(path, quick=bool(os.environ.get("TESTS_QUICK"))) or None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Here, because the process that reports for its workers loads no conftest further down."""
    count_cases(terminalreporter)
    print_measured(terminalreporter)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the process that reports for its workers: see how evenly they were busy."""
    note_end(report)


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, among what the tests make."""
    gc.collect()
    gc.freeze()
    # Rarely: a query makes thousands of small objects that are no garbage; a sixth of what the conformance cases took.
    gc.set_threshold(20_000)
    gc.enable()


def pytest_unconfigure() -> None:
    """All objects may go again: libraries complain of those that are left at the end of the process."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """How the tests are dealt out to workers, where there are any (`./dev test`)."""
    from tests.scheduling import Schedule

    return Schedule(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A sample of wide tests; long tests first where several workers should end together."""
    from tests.scheduling import quick_sample, rank

    deselect_cases(config, items)
    if os.environ.get("TESTS_QUICK"):
        kept = quick_sample([item.nodeid for item in items])
        deselect(config, items, {item for item in items if item.nodeid not in kept})
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.nodeid))
