"""The one list of load options, and the input that owns its directory."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path

import pytest
from typer.main import get_command

import omnigraph as og
from omnigraph.cli.app import build
from omnigraph.errors import BadRequest, StorageError
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.load_options import LoadKeywords, LoadOptions

SCHEMA = "node Person { name: String @key }"
PEOPLE = [{"type": "Person", "data": {"name": "a"}}]


def test_the_keywords_are_those_of_the_options():
    fields = {field.name: field.type for field in dataclasses.fields(LoadOptions)}
    keywords = {name: kind.__forward_arg__ for name, kind in LoadKeywords.__annotations__.items()}
    assert keywords == fields


def test_both_commands_take_the_same_options():
    commands = get_command(build()).commands
    load, ingest = (
        {
            option.name: (option.opts, option.help, option.default)
            for option in commands[name].params
        }
        for name in ("load", "ingest")
    )
    assert {name: load[name][:2] for name in load} == {name: ingest[name][:2] for name in ingest}
    differing = {name: ingest[name][2] for name in load if load[name][2] != ingest[name][2]}
    assert differing == {"from_": "main"}


@pytest.mark.parametrize("call", ["load", "load_nodes", "load_edges"])
def test_an_option_that_does_not_exist_is_a_type_error(tmp_path, call):
    arguments = {"load": [PEOPLE], "load_nodes": ["Person", None], "load_edges": ["Knows", None]}
    with (
        og.init(tmp_path / "g", SCHEMA) as graph,
        pytest.raises(TypeError, match="no colour, size"),
    ):
        getattr(graph, call)(*arguments[call], size=1, colour="red")


def test_records_are_not_taken_from_a_program_before_the_options_are_checked(tmp_path):
    taken = []
    records = (taken.append(one) or one for one in PEOPLE)
    with og.init(tmp_path / "g", SCHEMA) as graph, pytest.raises(BadRequest, match="retries"):
        graph.load(records, retries=-1)
    assert taken == []


def test_the_directory_of_an_input_goes_with_its_block():
    with LoadInput() as inputs:
        inputs.json(PEOPLE)
        (source,) = inputs.sources
        spooled = Path(source.location.path)
        assert spooled.exists()
        assert inputs.is_private(source)
    assert not spooled.exists()


def test_a_full_disk_is_told_with_the_way_out():
    with pytest.raises(StorageError, match="TMPDIR"), LoadInput():
        raise OSError(errno.ENOSPC, "No space left on device")
