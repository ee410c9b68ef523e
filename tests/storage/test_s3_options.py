"""Options of S3 that a caller gives for one handle: spelling, refusals, and what wins."""

from __future__ import annotations

import pickle

import pytest

from omnigraph.errors import BadRequest
from omnigraph.pipeline.datasource.option_values import split_store_options
from omnigraph.storage.store_kinds.s3_options import OPTION_NAMES, S3Options
from omnigraph.storage.uris import Root

SECRET = "s-e-c-r-e-t"
KEYS = {"access_key_id": "key", "secret_access_key": SECRET}


def lance_options(given, **environ):
    root = Root.parse("s3://my-bucket/g", S3Options.parse(given))
    return root.lance_options(environ)


@pytest.mark.parametrize(
    "given",
    [
        {**KEYS, "session_token": "t", "region": "r", "endpoint": "http://h:1",
         "path_style": True, "allow_http": True},
        {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": "t",
         "AWS_REGION": "r", "AWS_ENDPOINT_URL_S3": "http://h:1", "AWS_S3_FORCE_PATH_STYLE": "1",
         "AWS_ALLOW_HTTP": "true"},
        {"aws_access_key_id": "key", "aws_secret_access_key": SECRET, "aws_session_token": "t",
         "aws_region": "r", "aws_endpoint": "http://h:1", "allow_http": "true",
         "aws_virtual_hosted_style_request": "false"},
        {"access-key-id": "key", "secret-access-key": SECRET, "session-token": "t", "region": "r",
         "endpoint": "http://h:1", "path-style": "yes", "allow-http": "on"},
    ],
)  # fmt: skip
def test_every_usual_spelling_means_the_same(given):
    assert lance_options(given) == {
        "aws_region": "r",
        "aws_access_key_id": "key",
        "aws_secret_access_key": SECRET,
        "aws_session_token": "t",
        "aws_endpoint": "http://h:1",
        "aws_virtual_hosted_style_request": "false",
        "allow_http": "true",
    }


def test_each_option_wins_over_its_variable_and_keys_go_together():
    environ = {
        "AWS_REGION": "env",
        "AWS_ENDPOINT_URL": "https://env",
        "AWS_ACCESS_KEY_ID": "env-key",
        "AWS_SECRET_ACCESS_KEY": "env-secret",
    }
    assert lance_options(None, **environ)["aws_endpoint"] == "https://env"
    merged = lance_options({"region": "mine"}, **environ)
    assert (merged["aws_region"], merged["aws_access_key_id"]) == ("mine", "env-key")
    merged = lance_options(KEYS, **environ)
    assert (merged["aws_access_key_id"], merged["aws_secret_access_key"]) == ("key", SECRET)
    assert merged["aws_endpoint"] == "https://env"
    merged = lance_options({**KEYS, "session_token": "t"}, **environ, AWS_SESSION_TOKEN="env")
    assert merged["aws_session_token"] == "t"
    with pytest.raises(BadRequest, match="AWS_SESSION_TOKEN"):
        lance_options(KEYS, **environ, AWS_SESSION_TOKEN="env")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"acces_key_id": SECRET}, "did you mean `access_key_id`"),
        ({"profile": SECRET}, "there are endpoint, region"),
        ({"secret_access_key": SECRET}, "both or neither"),
        ({"secret_access_key": 7}, "is a int"),
        ({**KEYS, "aws_secret_access_key": "another"}, "given twice"),
        ({"region": " "}, "is empty"),
        ({"path_style": "perhaps"}, "true or false"),
        ({"endpoint": "host:9000"}, "https://host"),
        ({"endpoint": f"https://me:{SECRET}@host"}, "has credentials in it"),
        ({"endpoint": "http://host"}, "give allow_http=true"),
        ({7: "x"}, "named by texts"),
        ("region=x", "is a mapping"),
    ],
)
def test_what_cannot_be_used_is_refused_without_showing_secrets(given, said):
    with pytest.raises(BadRequest, match=said) as caught:
        lance_options(given)
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.details}"


def test_values_are_hidden_and_travel():
    root = Root.parse("s3a://my-bucket/g", S3Options.parse({**KEYS, "region": "r"}))
    assert SECRET not in f"{root!r} {root} {root.options!r}"
    assert "region='r'" in repr(root.options)
    assert pickle.loads(pickle.dumps(root)).lance_options({}) == root.lance_options({})
    assert root == Root.parse("s3://my-bucket/g")
    assert S3Options.parse(root.options.to_mapping()) == root.options


def test_the_data_source_takes_them_under_a_prefix():
    given = {"graph": "s3a://b/g", "S3.Endpoint": "https://mine", "option.s3.region": "r"}
    rest, store = split_store_options(given)
    assert rest == {"graph": "s3a://b/g"}
    assert store == S3Options(endpoint="https://mine", region="r")
    registered = S3Options(endpoint="https://registered", access_key_id="k", secret_access_key="s")
    assert split_store_options({"type": "T"}, {"s3": registered}) == ({"type": "T"}, registered)
    assert split_store_options(given, {"s3": registered})[1] == S3Options(
        endpoint="https://mine", region="r", access_key_id="k", secret_access_key="s"
    )
    with pytest.raises(BadRequest, match=r"option `s3\.regoin`; did you mean `region`"):
        split_store_options({"s3.regoin": "r"})
    assert set(OPTION_NAMES) == {
        "endpoint", "region", "access_key_id", "secret_access_key", "session_token",
        "path_style", "allow_http",
    }  # fmt: skip
