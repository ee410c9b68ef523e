"""Read declarations in YAML and say everything that is wrong with them, each with its place.

A ``Node`` is a value of a file, its path in it, and the list where faults go. Whoever reads a file asks
nodes for what they should be; a wrong one adds a fault and gives None, and the reading goes on:

    file = read_nodes(Path("team.yaml"))
    fields = file.fields(("version", "groups"), required=("version",))
    groups = fields["groups"].mapping() if "groups" in fields else {}
    file.faults.refuse()   # BadRequest with all of them

    team.yaml has 2 faults:
      line 1, version: this is a text; give a whole number
      line 3, gruops: there is no such key; did you mean `groups`?
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from omnigraph.errors import BadRequest
from omnigraph.spelling import did_you_mean
from omnigraph.yaml_files import parse_yaml, read_yaml_text

Steps: TypeAlias = tuple[str | int, ...]
"""The keys and numbers that lead to a value from the top of a file."""
_SHOWN = 50
"""How many faults a message lists."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong in a file: the line, the path of keys to it, and what to do."""

    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        place = ", ".join(
            text for text in (f"line {self.line}" if self.line else "", self.path) if text
        )
        return f"{place}: {self.message}" if place else self.message

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {"line": self.line, "path": self.path, "message": self.message}


@dataclass(slots=True)
class Faults:
    """Everything found wrong in one file so far."""

    file: Path
    text: str = ""
    found: list[Fault] = field(default_factory=list)
    _lines: dict[Steps, int] | None = None

    @property
    def lines(self) -> Mapping[Steps, int]:
        """The line of every value, by its path; found out for the first fault, since it takes as long as reading."""
        if self._lines is None:
            self._lines = _lines(self.text)
        return self._lines

    def add(self, steps: Steps, message: str) -> None:
        """Add a fault at a value; at the nearest value above it that has a line."""
        self.found.append(Fault(self.line_of(steps), shown_path(steps), message))

    def line_of(self, steps: Steps) -> int | None:
        """Return the line of a value, or of the nearest one above it that has a line."""
        return next(
            (
                self.lines[steps[:end]]
                for end in range(len(steps), -1, -1)
                if steps[:end] in self.lines
            ),
            None,
        )

    def refuse(self) -> None:
        """Raise ``BadRequest`` with all faults, in the order of their lines, if there are any."""
        if not self.found:
            return
        faults = sorted(self.found, key=lambda fault: fault.line or 0)
        if len(faults) == 1:
            text = f"{self.file}, {faults[0]}"
        else:
            listed = [f"  {fault}" for fault in faults[:_SHOWN]]
            more = [f"  and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
            text = "\n".join([f"{self.file} has {len(faults)} faults:", *listed, *more])
        raise BadRequest(text, path=str(self.file), faults=[fault.to_json() for fault in faults])


def shown_path(steps: Steps) -> str:
    """Return a path as people write it: `rules[0].allow.actions`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a file, with its place."""

    value: Any
    steps: Steps
    faults: Faults

    def fault(self, message: str) -> None:
        """Say what is wrong with this value."""
        self.faults.add(self.steps, message)

    def at(self, step: str | int) -> Node:
        """Return a member of a mapping or list that is known to be there."""
        return Node(self.value[step], (*self.steps, step), self.faults)

    def mapping(self) -> dict[str, Node]:
        """Return the members of a mapping, whatever their keys are; none if it is no mapping."""
        if not isinstance(self.value, dict):
            self.fault(f"this is {_kind(self.value)}; give keys and values")
            return {}
        members = {}
        for key in self.value:
            if isinstance(key, str) and key.strip():
                members[key] = self.at(key)
            else:
                self.fault(f"the key {key!r} is not a name; give a text")
        return members

    def fields(self, known: Sequence[str], required: Iterable[str] = ()) -> dict[str, Node]:
        """Return the members of a mapping with these keys; another key, or a missing one, is a fault."""
        members = self.mapping()
        if isinstance(self.value, dict):
            for name in members:
                if name not in known:
                    hint = did_you_mean(name, known) or f"the keys are {', '.join(known)}"
                    self.faults.add((*self.steps, name), f"there is no such key; {hint}")
            for name in required:
                if name not in members:
                    self.fault(f"the key `{name}` is missing; add it")
        return {name: node for name, node in members.items() if name in known}

    def elements(self, what: str) -> list[Node]:
        """Return the elements of a list; ``what`` it holds is said if it is none."""
        if not isinstance(self.value, list):
            self.fault(f"this is {_kind(self.value)}; give a list of {what}")
            return []
        return [self.at(number) for number in range(len(self.value))]

    def text(self) -> str | None:
        """Return a text that is not blank, without blanks around it."""
        if isinstance(self.value, str) and self.value.strip():
            return self.value.strip()
        blank = isinstance(self.value, str)
        self.fault(
            "this is blank; give a text" if blank else f"this is {_kind(self.value)}; give a text"
        )
        return None

    def word(self, known: Sequence[str]) -> str | None:
        """Return one of these words."""
        text = self.text()
        if text is None or text in known:
            return text
        hint = did_you_mean(text, known) or f"it is one of {', '.join(known)}"
        self.fault(f"`{text}` is not known here; {hint}")
        return None

    def texts(self, what: str) -> list[str]:
        """Return the texts of a list, of which none may stand there twice."""
        seen: dict[str, None] = {}
        for element in self.elements(what):
            text = element.text()
            if text in seen:
                element.fault(f"`{text}` is there twice; drop one")
            elif text is not None:
                seen[text] = None
        return list(seen)


def _kind(value: object) -> str:
    """Return how a message calls a value."""
    kinds = {
        dict: "a mapping",
        list: "a list",
        str: "a text",
        bool: "true or false",
        type(None): "empty",
    }
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else "a date")


def read_nodes(path: Path) -> Node:
    """Return the content of a file as nodes, each with its place; a file that is not YAML at all is refused."""
    return parse_nodes(read_yaml_text(path), path)


def parse_nodes(text: str, path: Path) -> Node:
    """Return what the text of a file says, with places; ``path`` is what messages call it."""
    return Node(parse_yaml(text, path), (), Faults(path, text))


def _lines(text: str) -> dict[Steps, int]:
    """Return the line of every value of a file, by its path."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, SequenceNode

    lines: dict[Steps, int] = {}
    waiting: list[tuple[Steps, Any, int | None]] = [
        ((), YAML(typ="safe", pure=True).compose(text), None)
    ]
    while waiting:
        steps, node, line = waiting.pop()
        if node is None:
            continue
        lines[steps] = node.start_mark.line + 1 if line is None else line
        if isinstance(node, MappingNode):
            # The line of a member is that of its key: its value may begin below it.
            waiting += [
                ((*steps, key.value), value, key.start_mark.line + 1) for key, value in node.value
            ]
        elif isinstance(node, SequenceNode):
            waiting += [((*steps, number), value, None) for number, value in enumerate(node.value)]
    return lines
