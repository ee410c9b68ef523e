"""The blame of an entity: for each property the commit that gave it its value."""

from __future__ import annotations

from typing import Any

from omnigraph.cancel import look
from omnigraph.changes.entity_history.authors import Authors
from omnigraph.changes.entity_history.entity_states import PRESENCE, image_pair
from omnigraph.changes.entity_history.history import kind_of
from omnigraph.changes.entity_history.results import EntityBlame
from omnigraph.changes.entity_history.walk import Walk, WalkState
from omnigraph.changes.schemas.type_pairs import shown_properties


def entity_blame(
    walk: Walk, place: WalkState, authors: Authors, edges: list[EntityBlame] | None = None
) -> EntityBlame:
    """Return for each property of an entity the commit that gave it its value."""
    states = walk.states
    _, image = image_pair(None, place.seen, properties=True, short=False)
    values = {} if image is None else image

    def told(value: Any, names: frozenset[str]) -> dict[str, Any]:
        look()
        watched = names | {PRESENCE}
        stop = walk.next_stop(place, lambda one, other: not states.differing(one, other) & watched)
        assert stop is not None, "an entity that is there was inserted"
        return {"value": value, **authors.of(stop, states.entity.table_key, states.id)}

    properties = {
        name: told(values["properties"][name], frozenset({name}))
        for name, _ in shown_properties(states.entity)
    }
    ends = values.get("endpoints")
    return EntityBlame(
        kind_of(walk),
        states.entity.name,
        states.id,
        place.snapshot.graph_commit_id,
        properties,
        None if ends is None else told(ends, frozenset(ends)),
        edges,
    )
