"""Running the cases of a surfaces file that need a server, by the contract in the head of that file.

Kinds: `http` and `http_parallel` send requests to a server, `boot` starts one that ends, `map` hands an error to the
code that makes HTTP bodies, and `cli` cases with a server run commands against it.
"""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from omnigraph import errors
from omnigraph.server.handling.error_bodies import error_answer
from tests.answers import check_http_answer
from tests.cli.running import Launcher, Result, environment
from tests.cli.surfaces import CASE_KEYS, CliCase, Running, at, match, surface_cases
from tests.conformance.expectations import only_known
from tests.server.running import COMMAND, RunningServer, several_workers, start_server

HTTP_KEYS = [*CASE_KEYS, "request", "steps", "parallel", "signal", "error"]
REQUEST_KEYS = ["method", "url", "as", "headers", "json", "body", "body_fill"]
EXPECT_KEYS = [
    "status",
    "headers",
    "absent_headers",
    "json",
    "body",
    "not_body",
    "body_line_count",
    "statuses_in",
    "min",
    "on",
]
SERVER_KEYS = [
    *("store", "graphs", "cluster", "policy", "server_policy", "queries"),
    *("tokens", "unauthenticated", "args", "env"),
]
PATIENCE = 60


def served_cases() -> list[CliCase]:
    """The cases with a server, and those of the parts of one."""
    return [case for case in surface_cases() if case.body["kind"] != "cli" or "server" in case.body]


@dataclass(frozen=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ServedCase(Running):
    """A case under way, with its server."""

    launcher: Launcher | None = None
    server: RunningServer | None = None
    tokens: Mapping[str, str] = field(default_factory=dict)

    def whole(self) -> None:
        """All of the case, in the order of the contract."""
        body = self.case.body
        only_known(str(self.case), body, HTTP_KEYS)
        self.prepare()
        match body["kind"]:
            case "cli":
                with self.serving(body["server"]):
                    self.steps(body.get("before", ()))
                    self.step({"cli": body["argv"], **body})
                    self.steps(body.get("after", ()))
            case "boot":
                self.steps(body.get("before", ()))
                self.check(self.boot(), body["expect"])
            case "map":
                check_answer_of(mapped(body["error"]), body["expect"])
            case "http" | "http_parallel":
                self.steps(body.get("before", ()))
                with self.serving(body["server"]):
                    self.ask()
                    self.steps(body.get("after", ()))

    @contextmanager
    def serving(self, spec: Mapping[str, Any]) -> Iterator[None]:
        """A server as the case wants it."""
        only_known("server", spec, SERVER_KEYS)
        self.tokens = spec.get("tokens", {})
        env = dict(spec.get("env", {}))
        if self.tokens:
            env["OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"] = json.dumps(self.tokens)
        home = {"OMNIGRAPH_HOME": str(self.place / "home")}
        log = self.place / "server.log"
        flags = [*server_arguments(spec), *several_workers()]
        with start_server(
            *flags, log=log, environ={**home, **env}, cwd=self.place, launcher=self.launcher
        ) as self.server:
            self.captured["server"] = self.server.base
            yield

    def boot(self) -> Result:
        """Start a server that ends, by itself or by the signal of the case."""
        body = self.case.body
        if self.launcher is not None and "signal" not in body:
            env = environment(self.place / "home", body.get("env"))
            return self.launcher.run_server(body["argv"], self.place, env, PATIENCE)
        argv = [*COMMAND, *body["argv"]]
        process = subprocess.Popen(
            argv,
            cwd=self.place,
            env=environment(self.place / "home", body.get("env")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            before = ""
            if "signal" in body:
                assert process.stdout is not None
                before = process.stdout.readline()
                assert before.startswith("OMNIGRAPH_LISTEN_ADDR="), before
                process.send_signal(signal.Signals[f"SIG{body['signal']}"])
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        return Result(body["argv"], process.returncode, before + out, err)

    def ask(self) -> None:
        """Send the requests of the case."""
        body = self.case.body
        if body["kind"] == "http_parallel":
            self.ask_at_once(body)
            return
        for step in body.get("steps", [body]):
            if "cli" in step:
                self.step(step)
                continue
            answer = self.send(step["request"])
            check_answer_of(answer, self.filled_in(step["expect"]))
            for name, path in step.get("capture", {}).items():
                self.captured[name] = at(answer.json, path)

    def ask_at_once(self, body: Mapping[str, Any]) -> None:
        """Send copies of a request at once; rare statuses may need another round."""
        expect = body["expect"]
        only_known("expect", expect, EXPECT_KEYS)
        wanted = {int(status): count for status, count in expect.get("min", {}).items()}
        for _ in range(1 if set(wanted) <= {200} else 4):
            answers = self.round(body)
            seen = Counter(answer.status for answer in answers)
            if all(seen[status] >= count for status, count in wanted.items()):
                break
        assert set(seen) <= set(expect["statuses_in"]), seen
        assert all(seen[status] >= count for status, count in wanted.items()), seen
        for status, each in expect.get("on", {}).items():
            for answer in answers:
                if answer.status == int(status):
                    check_answer_of(answer, each)

    def round(self, body: Mapping[str, Any]) -> list[Answer]:
        count = body["parallel"]
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda i: self.send(numbered(body["request"], i)), range(count)))

    def send(self, request: Mapping[str, Any]) -> Answer:
        """Send one request as it stands, and read all of its answer."""
        only_known("request", request, REQUEST_KEYS)
        assert self.server is not None
        request = with_files(self.filled_in(request), self.case.fixtures)
        headers = dict(request.get("headers", {}))
        body = body_of(request)
        given = {name.lower() for name in headers}
        if "json" in request and "content-type" not in given:
            headers["Content-Type"] = "application/json"
        if "as" in request:
            headers["Authorization"] = f"Bearer {self.tokens[request['as']]}"
        return exchange(self.server.base, request["method"], request["url"], headers, body)


def server_arguments(spec: Mapping[str, Any]) -> list[str]:
    """The command line of a server as a case describes it."""
    argv = []
    if "store" in spec:
        argv += ["--store", spec["store"]]
    if "cluster" in spec:
        argv += ["--cluster", spec["cluster"]]
    for name, uri in spec.get("graphs", {}).items():
        argv += ["--graph", f"{name}={uri}"]
    for name in ("policy", "queries"):
        bound = spec.get(name, ())
        bound = {"": bound} if isinstance(bound, str) else dict(bound)
        for graph, path in bound.items():
            argv += [f"--{name}", f"{graph}={path}" if graph else path]
    if "server_policy" in spec:
        argv += ["--server-policy", spec["server_policy"]]
    if spec.get("unauthenticated"):
        argv.append("--unauthenticated")
    return [*argv, *spec.get("args", ())]


def exchange(
    base: str, method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> Answer:
    """One request over a connection of its own; redirects are not followed."""
    place = urlsplit(base)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=PATIENCE)
    try:
        given = {name.lower() for name in headers}
        connection.putrequest(method, url, skip_host="host" in given, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None and "content-length" not in given:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        check_http_answer(method, url, answer.status, answer.getheader("content-type"), content)
        return Answer(answer.status, answer.getheaders(), content)
    finally:
        connection.close()


def body_of(request: Mapping[str, Any]) -> bytes | None:
    """The bytes that a request sends."""
    if "json" in request:
        return json.dumps(request["json"]).encode()
    if "body_fill" in request:
        fill = request["body_fill"]
        return str(fill["char"]).encode() * int(fill["bytes"])
    return str(request["body"]).encode() if "body" in request else None


def with_files(value: Any, fixtures: Mapping[str, str]) -> Any:
    """The value with `{$file: f}` replaced by the text of a fixture."""
    if isinstance(value, Mapping):
        if list(value) == ["$file"] and value["$file"] in fixtures:
            return fixtures[value["$file"]]
        return {key: with_files(one, fixtures) for key, one in value.items()}
    return [with_files(one, fixtures) for one in value] if isinstance(value, list) else value


def numbered(value: Any, number: int) -> Any:
    """The value with `${i}` replaced by the number of the request."""
    if isinstance(value, Mapping):
        return {key: numbered(one, number) for key, one in value.items()}
    if isinstance(value, list):
        return [numbered(one, number) for one in value]
    if value == "${i}":
        return number
    return value.replace("${i}", str(number)) if isinstance(value, str) else value


def check_answer_of(answer: Answer, expect: Mapping[str, Any]) -> None:
    """Compare what a server answered with what is expected of it."""
    only_known("expect", expect, EXPECT_KEYS)
    shown = f"{answer.status} {dict(answer.headers)}\n{answer.text[:4000]}"
    if "status" in expect:
        assert answer.status == expect["status"], shown
    for name, part in expect.get("headers", {}).items():
        values = [value for known, value in answer.headers if known.lower() == name.lower()]
        assert any(str(part) in value for value in values), f"{name}: {part}\n{shown}"
    for name in expect.get("absent_headers", ()):
        assert name.lower() not in {known.lower() for known, _ in answer.headers}, shown
    for part in expect.get("body", ()):
        assert part in answer.text, shown
    for part in expect.get("not_body", ()):
        assert part not in answer.text, shown
    if "body_line_count" in expect:
        assert len(answer.text.splitlines()) == expect["body_line_count"], shown
    if "json" in expect:
        match(answer.json, expect["json"], shown)
    assert "Traceback" not in answer.text, shown


#: What the engine says where a case gives no text.
MESSAGES = {
    "recovery_required": "operation {operation_id} stopped half way and must be rolled back: reopen "
    "the graph read-write"
}


def mapped(error: Mapping[str, Any]) -> Answer:
    """The answer that an error of the engine gets; no server is asked."""
    details = {name: value for name, value in error.items() if name not in {"kind", "message"}}
    kind = error["kind"]
    message = error.get("message") or MESSAGES.get(kind, "it failed").format(**details)
    raised = classes()[kind](message, **details)
    status, headers, body = error_answer(raised, "7f3a", "default")
    shown = [(name.decode(), value.decode()) for name, value in headers]
    return Answer(status, shown, json.dumps(body).encode())


def classes() -> dict[str, type[errors.OmniGraphError]]:
    """Every class of errors by its code."""

    def below(base: type[errors.OmniGraphError]) -> Iterator[type[errors.OmniGraphError]]:
        yield base
        for child in base.__subclasses__():
            yield from below(child)

    return {one.code: one for one in below(errors.OmniGraphError)}
