"""Credentials where no keys are given: profiles, files, processes, web identity, roles of machines.

Every request of a process that makes a graph, fills, branches, merges and exports it must be signed with
the key that was to be found, whoever sent it: Lance, the control objects, the export.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import pytest

import omnigraph as og
from tests.s3_server import BUCKET

WORK = """
import sys
import omnigraph as og
root = sys.argv[1]
with og.init(root, "node Person { name: String @key }") as graph:
    graph.load([{"type": "Person", "data": {"name": "ada"}}])
    graph.branches.create("side")
    graph.load([{"type": "Person", "data": {"name": "bob"}}], branch="side")
    graph.branches.merge("side")
    graph.export(root + "-out.jsonl")
    print(sorted(row["name"] for row in graph.query("query q() { match { $p: Person } return { $p.name as name } }")))
"""


@pytest.fixture
def signed(s3):
    """The pairs of access key and token that requests were signed with."""
    found = set()

    def look(environ):
        key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
        found.add((key, environ.get("HTTP_X_AMZ_SECURITY_TOKEN")))

    s3.before(look)
    return found


@pytest.fixture
def run(s3, tmp_path):
    """Run a program that has only these variables, beside those that lead to the store."""

    def run(*, source=WORK, **variables):
        kept = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
        env = {
            **kept,
            "HOME": str(tmp_path),
            "AWS_ENDPOINT_URL_S3": s3.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            **variables,
        }
        place = f"s3://{BUCKET}/{uuid4().hex}"
        return subprocess.run(
            [sys.executable, "-c", source, place],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def worked(done) -> bool:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip() == "['ada', 'bob']"


def test_the_default_profile_of_the_files(run, signed, tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id=DEFAULTKEY\naws_secret_access_key=s\n"
    )
    (tmp_path / ".aws" / "config").write_text("[default]\nregion=eu-north-1\n")
    assert worked(run())
    assert signed == {("DEFAULTKEY", None)}


def test_a_profile_by_name_whose_process_gives_keys_that_expire(run, signed, tmp_path):
    script = tmp_path / "keys.sh"
    keys = {
        "Version": 1,
        "AccessKeyId": "PROCESSKEY",
        "SecretAccessKey": "s",
        "SessionToken": "token-1",
        "Expiration": "2100-01-01T00:00:00Z",
    }
    script.write_text(f"#!/bin/sh\necho '{json.dumps(keys)}'\n")
    script.chmod(0o755)
    config = tmp_path / "config"
    config.write_text(f"[profile work]\nregion=eu-west-1\ncredential_process={script}\n")
    assert worked(run(AWS_CONFIG_FILE=str(config), AWS_PROFILE="work"))
    assert signed == {("PROCESSKEY", "token-1")}


@pytest.fixture
def aws():
    """The metadata of a machine with a role, and a token service, as AWS answers them."""

    class Answers(BaseHTTPRequestHandler):
        def answer(self, text: str) -> None:
            self.send_response(200)
            self.send_header("x-aws-ec2-metadata-token-ttl-seconds", "21600")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_PUT(self) -> None:
            self.answer("metadata-token")

        def do_GET(self) -> None:
            role = {
                "Code": "Success",
                "Type": "AWS-HMAC",
                "LastUpdated": "2026-01-01T00:00:00Z",
                "AccessKeyId": "ROLEKEY",
                "SecretAccessKey": "s",
                "Token": "role-token",
                "Expiration": "2100-01-01T00:00:00Z",
            }
            self.answer(json.dumps(role) if self.path.endswith("/worker") else "worker")

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
            assert "AssumeRoleWithWebIdentity" in asked
            assert "the-web-token" in asked
            self.answer(
                "<AssumeRoleWithWebIdentityResponse"
                ' xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
                "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>WEBKEY</AccessKeyId>"
                "<SecretAccessKey>s</SecretAccessKey><SessionToken>web-session</SessionToken>"
                "<Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>"
                "<AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/r/s</Arn>"
                "<AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser>"
                "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            )

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_role_of_a_machine(run, signed, aws):
    done = run(
        AWS_EC2_METADATA_DISABLED="false",
        AWS_EC2_METADATA_SERVICE_ENDPOINT=aws,
        AWS_REGION="us-east-1",
    )
    assert worked(done)
    assert signed == {("ROLEKEY", "role-token")}


def test_web_identity(run, signed, aws, tmp_path):
    token = tmp_path / "token"
    token.write_text("the-web-token")
    done = run(
        AWS_WEB_IDENTITY_TOKEN_FILE=str(token),
        AWS_ROLE_ARN="arn:aws:iam::123456789012:role/worker",
        AWS_ROLE_SESSION_NAME="tests",
        AWS_ENDPOINT_URL_STS=aws,
        AWS_REGION="us-east-1",
    )
    assert worked(done)
    assert signed == {("WEBKEY", "web-session")}


REFUSED = """
import sys
import omnigraph as og
try:
    og.open(sys.argv[1])
except og.errors.OmniGraphError as error:
    print(error)
"""


def test_an_unknown_profile_is_named(run):
    done = run(source=REFUSED, AWS_PROFILE="nobody", AWS_REGION="us-east-1")
    assert done.returncode == 0, done.stderr
    assert "nobody" in done.stdout
    assert "AWS_PROFILE" in done.stdout


def test_no_credentials_at_all_say_what_to_do(run):
    done = run(source=REFUSED, AWS_REGION="us-east-1")
    assert done.returncode == 0, done.stderr
    assert "credentials" in done.stdout
    assert "AWS_PROFILE" in done.stdout


@pytest.mark.parametrize("what", ["init", "open", "load", "export"])
def test_a_bucket_that_is_not_there_is_said_to_be(s3_root, what):
    graph = og.init(s3_root.canonical, "node Person { name: String @key }")
    calls = {
        "init": lambda: og.init("s3://nowhere/g", "node Person { name: String @key }"),
        "open": lambda: og.open("s3://nowhere/g"),
        "load": lambda: graph.load("s3://nowhere/rows.jsonl"),
        "export": lambda: graph.export("s3://nowhere/out.jsonl"),
    }
    with graph, pytest.raises(og.errors.StorageError, match="there is no such bucket; create it"):
        calls[what]()
