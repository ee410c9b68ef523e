"""`omnigraph policy` and `omnigraph queries`: bundles and stored queries, checked before they come into force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.address import Store
from omnigraph.cli.call import Invocation
from omnigraph.cli.output import note, put
from omnigraph.cli.shared_options import UriArgument
from omnigraph.cli.text_tables import put_table
from omnigraph.display.text import counted
from omnigraph.errors import BadRequest
from omnigraph.policy.checker import Action
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.lang.query.registry import Registry
    from omnigraph.policy.bundle import Bundle

FAILED = 1
SCOPES = ("cluster", "graph")
FileOption = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="The bundle, a YAML file.")
]
BundleOption = Annotated[
    str | None,
    typer.Option("--bundle", metavar="NAME", help="Which bundle, where a cluster has several."),
]
QueriesOption = Annotated[
    Path | None, typer.Option("--queries", metavar="DIR", help="A directory of .gq files.")
]


def _bundle(call: Invocation, file: Path | None, name: str | None) -> tuple[str, Bundle]:
    """Return the bundle of a call and what it is called: a file, or one that a cluster applied."""
    from omnigraph.policy.bundle import read_bundle

    if file is not None:
        _refuse_beside(call, "--file", "--bundle" if name is not None else None)
        return file.name, read_bundle(file)
    cluster = call.cluster()
    if cluster is None:
        raise BadRequest(f"{call.command.name} needs a bundle; pass --file FILE, or --cluster DIR")
    from omnigraph.cluster.served import read_bundles

    found = read_bundles(cluster.root)
    if name is None and cluster.graph is not None:
        bound = [one for one, (_, scopes) in found.items() if cluster.graph in scopes]
        name = bound[0] if bound else None
    elif name is None and len(found) == 1:
        name = next(iter(found))
    if name is None or name not in found:
        known = ", ".join(found) or "none"
        raise BadRequest(f"the cluster has the bundles {known}; name one with --bundle")
    return name, found[name][0]


def _refuse_beside(call: Invocation, flag: str, other: str | None = None) -> None:
    """Refuse the flags that say where to look, beside the one that names what is looked at."""
    given = [f"--{name}" for name in SCOPES if getattr(call.flags, name) is not None]
    given += [] if other is None else [other]
    if given:
        raise BadRequest(
            f"{flag} names what {call.command.name} looks at; leave {' and '.join(given)} out"
        )


def validate_policy(
    call: Invocation,
    file: FileOption = None,
    bundle_name: BundleOption = None,
    show: Annotated[
        bool, typer.Option("--cedar", help="Print the schema and policies it is compiled to.")
    ] = False,
) -> None:
    """Check a bundle, and say everything that is wrong with it."""
    from omnigraph.policy.cedar import CedarChecker, policies_text, schema_text

    name, bundle = _bundle(call, file, bundle_name)
    CedarChecker(bundle)
    document: Document = {
        "name": name,
        "kind": bundle.kind,
        "actors": len(bundle.actors),
        "rules": len(bundle.rules),
    }
    text = f"{name}: {counted(len(bundle.actors), 'actor')}, {counted(len(bundle.rules), 'rule')}"
    if show:
        document |= {"schema": schema_text(), "policies": policies_text(bundle)}
        text = f"{text}\n\n{schema_text()}\n{policies_text(bundle)}"
    call.answer(document, text)


def run_policy_tests(
    call: Invocation,
    tests: Annotated[
        Path, typer.Option("--tests", metavar="FILE", help="Questions and their answers, YAML.")
    ],
    file: FileOption = None,
    bundle_name: BundleOption = None,
) -> None:
    """Hold a bundle against questions and the answers that they should get."""
    from omnigraph.policy.cedar import CedarChecker
    from omnigraph.policy.expectations import read_expectations, unmet

    checker = CedarChecker(_bundle(call, file, bundle_name)[1])
    cases = read_expectations(tests)
    wrong = unmet(checker, cases)
    document = {
        "ok": not wrong,
        "cases": len(cases),
        "mismatches": [
            {
                "id": one.expectation.id,
                "expected": "allow" if one.expectation.allowed else "deny",
                "got": "allow" if one.decision.allowed else "deny",
                "message": one.decision.message,
            }
            for one in wrong
        ],
    }
    call.answer(document, f"{len(cases) - len(wrong)} of {counted(len(cases), 'case')} as expected")
    for one in wrong:
        note(f"error: {one}")
    if wrong:
        raise typer.Exit(FAILED)


def explain_policy(
    call: Invocation,
    actor: Annotated[str, typer.Option("--actor", metavar="NAME", help="Who asks.")],
    action: Annotated[
        Action, typer.Option("--action", metavar="ACTION", help="What for, such as `change`.")
    ],
    file: FileOption = None,
    bundle_name: BundleOption = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="The branch it starts from.")
    ] = None,
    target_branch: Annotated[
        str | None, typer.Option("--target-branch", metavar="NAME", help="The branch it changes.")
    ] = None,
) -> None:
    """Say what a bundle decides about one question, and by which rule."""
    from omnigraph.policy.cedar import CedarChecker
    from omnigraph.policy.expectations import question_of

    question = question_of(actor.strip(), action, branch, target_branch)
    checker = CedarChecker(_bundle(call, file, bundle_name)[1])
    decision = checker.check(question)
    document: Document = {
        "decision": "allow" if decision.allowed else "deny",
        "actor": question.actor,
        "action": str(question.action),
        "branch": question.branch,
        "target_branch": question.target,
        "matched_rule_id": decision.matched_rule_id,
        "message": decision.message,
    }
    about = "".join(
        f" {word} {name}"
        for word, name in (("on", question.branch), ("to", question.target))
        if name
    )
    text = f"{document['decision']}: {actor} {action}{about} ({decision.message})"
    call.answer(document, text)


def list_stored(call: Invocation, queries: QueriesOption = None) -> None:
    """List the queries of a directory, or of a graph of a cluster, with their parameters."""
    from omnigraph.service.stored import described

    if queries is not None:
        _refuse_beside(call, "--queries")
    document = {"queries": described(_stored(call, queries)[1])}

    def text() -> None:
        put_table(
            ("query", "kind", "parameters", "description"),
            [
                (
                    entry["name"],
                    "mutation" if entry["mutation"] else "read",
                    ", ".join(f"{one['name']}: {one['type']}" for one in entry["params"]),
                    entry.get("description", ""),
                )
                for entry in document["queries"]
            ],
        )

    call.answer(document, text)


def validate_stored(
    call: Invocation, queries: QueriesOption = None, uri: UriArgument = None
) -> None:
    """Check the queries of a directory, or of a cluster, against the schema of a graph."""
    from omnigraph.service.stored import validation

    place, registry = _stored(call, queries)
    with call.open(call.storage(uri) if place is None else place) as graph:
        document = validation(graph, registry)

    def text() -> None:
        for breakage in document["breakages"]:
            put(f"{breakage['query']}: {breakage['message']}")
        for warning in document["warnings"]:
            put(f"warning: {warning}")
        put(
            f"{counted(len(registry.queries), 'query', 'queries')}, {len(document['breakages'])} broken"
        )

    call.answer(document, text)
    if not document["ok"]:
        raise typer.Exit(FAILED)


def _stored(call: Invocation, queries: Path | None) -> tuple[Store | None, Registry]:
    """Return the queries of a call: those of a directory, or of a graph of a cluster and where that lies."""
    from omnigraph.lang.query.registry import Registry
    from omnigraph.mcp.tools import BUILT_IN_NAMES
    from omnigraph.service.stored import read_directory

    if queries is not None:
        return None, read_directory(queries, BUILT_IN_NAMES)
    cluster = call.cluster()
    if cluster is None:
        raise BadRequest(f"{call.command.name} needs queries; pass --queries DIR, or --cluster DIR")
    from omnigraph.cluster.served import read_queries
    from omnigraph.storage.uris import Root

    uri, sources = read_queries(cluster.root, cluster.graph)
    return Store(uri, Root.parse(uri).is_local), Registry.load(sources, BUILT_IN_NAMES)
