"""Schemas with their tokens mixed up; texts damaged in other ways are in `tests/faults/fuzz`."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lang.schema.fuzz_helpers import SEEDS, WORDS, check
from tests.sampling import examples

TOKENS = re.compile(r'"[^"]*"|\w+|->|\.\.|\s+|.')


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_a_source_with_tokens_changed(data):
    tokens = TOKENS.findall(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.integers(0, len(tokens) - 1))
        second = data.draw(st.integers(0, len(tokens) - 1))
        match data.draw(st.sampled_from(["swap", "drop", "repeat", "put"])):
            case "swap":
                tokens[first], tokens[second] = tokens[second], tokens[first]
            case "drop":
                tokens[first] = " "
            case "repeat":
                tokens.insert(first, tokens[second])
            case "put":
                tokens[first] = data.draw(st.sampled_from(WORDS))
    check("".join(tokens))
