"""Requests made up from the OpenAPI document: no answer is a 500 or says what it must not.

Good ones, bad ones, which must be refused, and ones that follow the links of earlier answers.

The seed is that of all wide tests (printed at the head of a run; `./dev faults --seed S` for another one), and
`./dev faults --all` sends thirty times as many.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import omnigraph as og
from omnigraph.server.openapi import openapi_document
from omnigraph.server.openapi.examples import GRAPH_ID, RECORDS, SCHEMA
from tests.answers import check_http_answer
from tests.s3_server import BUCKET, S3Server
from tests.sampling import runs_all
from tests.sampling import seed as chosen_seed
from tests.server.http import server_state, threaded
from tests.server.running import ON_S3, WORKERS, several_workers, start_server


def of_one_graph() -> dict[str, Any]:
    """The document with the id of the graph in its paths, so that what is made up, or wrong, is the rest."""
    document = openapi_document(tokens=False)
    paths = {}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            given = operation.get("parameters", [])
            operation["parameters"] = [one for one in given if one["name"] != "graph_id"]
            for link in operation["responses"]["200"].get("links", {}).values():
                del link["parameters"]["graph_id"]
        paths[path.replace("{graph_id}", GRAPH_ID)] = methods
    return {**document, "paths": paths}


LABELS = [
    f"{method.upper()} {path}"
    for path, operations in of_one_graph()["paths"].items()
    for method in operations
]
MANY = 250 if runs_all() else 3
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
STATEFUL = (*CHECKS, "use_after_free", "ensure_resource_availability")
#: What a program finds that follows the links: branches, tags, their commits, and their end.
LINKED = [
    *("create_branch", "branches", "delete_branch", "create_tag", "tags", "delete_tag"),
    *("commits", "commit", "commit_changes", "snapshot"),
]


@pytest.fixture(scope="module")
def tool():
    """Schemathesis, which takes seconds to load: the document as it reads it, and the checks of answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
    schemathesis.serializer.alias("application/x-ndjson", "application/octet-stream")
    document = schemathesis.openapi.from_dict(of_one_graph())
    operations = (result.ok() for result in document.get_all_operations())
    return SimpleNamespace(
        read=schemathesis.openapi.from_dict,
        mode=schemathesis.GenerationMode,
        document=document,
        operations={operation.label: operation for operation in operations},
        checks=[getattr(schemathesis.checks, name) for name in CHECKS],
        stateful=[getattr(schemathesis.checks, name) for name in STATEFUL],
        refused=schemathesis.checks.negative_data_rejection,
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("generated")
    with ExitStack() as ending:
        environ = ending.enter_context(an_s3()) if ON_S3 else {}
        root = f"s3://{BUCKET}/generated" if ON_S3 else str(place / "g.omni")
        graph = ending.enter_context(og.init(root, SCHEMA))
        graph.load(RECORDS.encode(), mode="append")
        if WORKERS:
            flags = ["--graph", f"{GRAPH_ID}={root}", "--unauthenticated", *several_workers()]
            served = ending.enter_context(
                start_server(*flags, log=place / "server.log", environ=environ)
            )
            graphs = {GRAPH_ID: SimpleNamespace(graph=graph)}
            yield SimpleNamespace(http=served, state=SimpleNamespace(graphs=graphs))
            return
        state = server_state({GRAPH_ID: graph}, place / "spool")
        state.agents = True
        yield ending.enter_context(threaded(state))


@contextmanager
def an_s3() -> Iterator[dict[str, str]]:
    """A store on this machine, and the environment that leads to it; it is this process's, too."""
    with pytest.MonkeyPatch.context() as patched:
        store = S3Server().start()
        for name, value in store.environment().items():
            patched.setenv(name, value)
        try:
            yield store.environment()
        finally:
            store.stop()


def sending(many: int, phases: tuple[Phase, ...] = (Phase.generate,)) -> settings:
    return settings(
        max_examples=many,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )


def test_every_operation_gets_requests(tool):
    assert sorted(tool.operations) == sorted(LABELS)


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("label", LABELS)
def test_no_answer_is_other_than_the_document_says(label, mode, server, tool, record_property):
    operation = tool.operations[label]
    if mode == "negative" and not (operation.query or operation.body):
        pytest.skip("the operation takes nothing that could be wrong")
    statuses: dict[int, int] = {}
    # What the protocol of agents takes is not ours to refuse.
    is_judged = mode == "negative" and not label.endswith("/mcp")
    checks = [*tool.checks, *([tool.refused] if is_judged else [])]

    @seed(chosen_seed())
    @sending(MANY, (Phase.explicit, Phase.generate))
    @given(case=operation.as_strategy(generation_mode=tool.mode(mode)))
    def send(case: Any) -> None:
        answer = case.call(base_url=server.http.base, timeout=60)
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        case.validate_response(answer, checks=checks)
        kind = (answer.headers.get("content-type") or [None])[0]
        check_http_answer(case.method, case.path, answer.status_code, kind, answer.content)

    send()
    assert sum(statuses.values()) > 0
    record_property("measured", f"seed {chosen_seed()}, answers by status {statuses}")


def test_what_an_answer_links_to_can_be_asked_in_any_order(server, tool, record_property):
    linked = tool.document.include(operation_id=LINKED)
    answered: Counter[tuple[str, int]] = Counter()

    class Following(linked.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            graph = server.state.graphs[GRAPH_ID].graph
            for name in graph.branches.list():
                if name != "main":
                    graph.branches.delete(name)
            for tag in graph.tags.list():
                graph.tags.delete(tag.name)

        def before_call(self, case: Any) -> None:
            if _id(case) in {"create_branch", "create_tag"} and isinstance(case.body, dict):
                # Most made up names can name nothing.
                name = re.sub("[^a-z0-9]", "", str(case.body.get("name")))
                case.body = {"name": f"n-{name[:20]}"}

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"base_url": server.http.base, "timeout": 60}

        def after_call(self, response: Any, case: Any) -> None:
            answered[_id(case), response.status_code] += 1

        def validate_response(self, response: Any, case: Any, *_: Any, **__: Any) -> None:
            case.validate_response(response, checks=tool.stateful)

    machine = seed(chosen_seed())(Following.TestCase.runTest)
    Following.TestCase.settings = settings(
        sending(200 if runs_all() else 10), stateful_step_count=8
    )
    machine(Following.TestCase())
    assert answered["create_branch", 200]
    record_property("measured", f"seed {chosen_seed()}, answers {dict(answered)}")


def _id(case: Any) -> str:
    found: str = case.operation.definition.raw["operationId"]
    return found


def test_bad_data_that_is_taken_would_be_seen(server, tool):
    """With a document that is wrong: the texts that it calls bad are taken."""
    document = of_one_graph()
    document["components"]["schemas"]["LintBody"]["properties"]["source"] = {"type": "integer"}
    operation = tool.read(document)[f"/graphs/{GRAPH_ID}/lint"]["POST"]

    # It ends with the first one that is taken. What is made also depends on the modules that are imported.
    @seed(0)
    @sending(3_000)
    @given(case=operation.as_strategy(generation_mode=tool.mode("negative")))
    def send(case: Any) -> None:
        answer = case.call(base_url=server.http.base, timeout=60)
        case.validate_response(answer, checks=[tool.refused])

    with pytest.raises(BaseExceptionGroup, match="Schema-violating request accepted"):
        send()


def test_an_answer_that_does_not_fit_would_be_seen(server, tool):
    document = of_one_graph()
    document["components"]["schemas"]["HealthAnswer"]["required"] = ["colour"]
    operation = tool.read(document)["/healthz"]["GET"]
    case = operation.Case()
    answer = case.call(base_url=server.http.base, timeout=60)
    with pytest.raises(BaseExceptionGroup, match="colour"):
        case.validate_response(answer, checks=tool.checks)
