"""Random schemas, mutations and loads, made from a seed for the plain model."""

from __future__ import annotations

from omnigraph.errors import InputError, KeyConflict
from tests.write.model import Edge, Model, Node, Prop, Record, Statement, row_kinds

NAMES = ["order", "group", "userName", "username", "select", "rec", "other", "from_", "n"]
TEXTS = ["", "a", "b", "ß", "日本", "a,b", "Z", "'"]
DAYS = ["1969-12-31", "1970-01-01", "2024-02-29"]
EPOCH = {"1969-12-31": -1, "1970-01-01": 0, "2024-02-29": 19782}


def make_prop(rnd, name):
    kind = rnd.choice(["String", "I32", "I32", "F64", "Bool", "Date", "enum"])
    prop = Prop(name, kind, required=rnd.random() < 0.3)
    if kind == "enum":
        prop.values = ("green", "red")
    if kind in {"I32", "F64"} and rnd.random() < 0.4:
        prop.bounds = rnd.choice([(-2, 2), (None, 2), (0, None), (-1.5, 2.5)])
    return prop


def make_node(rnd, name):
    props = [make_prop(rnd, prop) for prop in rnd.sample(NAMES, rnd.randint(2, 4))]
    node = Node(name, props)
    keys = rnd.choice([0, 1, 1, 2])
    for prop in props[:keys]:
        prop.required, prop.bounds = True, None
        if prop.kind == "F64":
            prop.kind = "String"
    node.key = tuple(prop.name for prop in props[:keys])
    rest = [prop.name for prop in props if prop.name not in node.key]
    if rest and rnd.random() < 0.6:
        node.unique.append((rnd.choice(rest),))
    if len(props) > 2 and rnd.random() < 0.4:
        node.unique.append(tuple(sorted(rnd.sample([prop.name for prop in props], 2))))
    return node


def make_edge(rnd, name, nodes):
    src, dst = rnd.choice(nodes), rnd.choice(nodes)
    edge = Edge(name, src, dst, [make_prop(rnd, "w")] if rnd.random() < 0.7 else [])
    for prop in edge.props:
        prop.bounds = None
    edge.low, edge.high = rnd.choice([(0, None), (0, None), (0, 2), (1, None), (1, 2)])
    groups = [("src", "dst"), ("src", "dst", "w"), ("src", "w")][: 3 if edge.props else 1]
    edge.unique = rnd.sample(groups, min(len(groups), rnd.choice([0, 0, 1, 1, 2])))
    return edge


def make_model(rnd):
    nodes = [make_node(rnd, name) for name in ("A", "B", "C")[: rnd.randint(1, 3)]]
    names = [node.name for node in nodes]
    edges = [make_edge(rnd, name, names) for name in ("E", "F", "G")[: rnd.randint(1, 3)]]
    return Model({node.name: node for node in nodes}, {edge.name: edge for edge in edges})


def type_text(prop):
    kind = f"enum({', '.join(prop.values)})" if prop.values else prop.kind
    return kind if prop.required else f"{kind}?"


def schema_text(model):
    lines = []
    for node in model.nodes.values():
        lines.append(f"node {node.name} {{")
        lines += [f"  {prop.name}: {type_text(prop)}" for prop in node.props]
        if node.key:
            lines.append(f"  @key({', '.join(node.key)})")
        lines += [f"  @unique({', '.join(group)})" for group in node.unique]
        for prop in node.props:
            if prop.bounds is not None:
                low, high = ("" if bound is None else bound for bound in prop.bounds)
                lines.append(f"  @range({prop.name}, {low}..{high})")
        lines.append("}")
    for edge in model.edges.values():
        high = "" if edge.high is None else edge.high
        lines.append(f"edge {edge.name}: {edge.src} -> {edge.dst} @card({edge.low}..{high}) {{")
        lines += [f"  {prop.name}: {type_text(prop)}" for prop in edge.props]
        lines += [f"  @unique({', '.join(group)})" for group in edge.unique]
        lines.append("}")
    return "\n".join(lines)


class Query:
    """The text of a mutation all of whose values are parameters."""

    def __init__(self):
        self.declared, self.given, self.parts = [], {}, []

    def value(self, kind, value):
        name = f"p{len(self.declared)}"
        self.declared.append(f"${name}: {kind}?")
        self.given[name] = value
        return f"${name}"

    def add(self, model, statement):
        entity = model.nodes.get(statement.type_name) or model.edges[statement.type_name]
        kinds = {prop.name: param_kind(prop) for prop in entity.props}
        kinds |= {"from": "String", "to": "String"}
        entries = ", ".join(
            f"{name}: {self.value(kinds[name], json_of(kinds[name], value))}"
            for name, value in statement.values.items()
        )
        where = ""
        if statement.where is not None:
            name, op, value = statement.where
            where = f" where {name} {op} {self.value(kinds[name], json_of(kinds[name], value))}"
        block = {"insert": f" {{ {entries} }}", "update": f" set {{ {entries} }}", "delete": ""}
        self.parts.append(f"{statement.verb} {statement.type_name}{block[statement.verb]}{where}")

    @property
    def text(self):
        return f"query q({', '.join(self.declared)}) {{ {' '.join(self.parts)} }}"


def param_kind(prop):
    # A wider parameter than the property can bring what does not fit.
    return {"enum": "String", "I32": "I64"}.get(prop.kind, prop.kind)


def json_of(kind, value):
    if kind == "Date" and value is not None:
        return next(text for text, day in EPOCH.items() if day == value)
    return value


def make_value(rnd, prop, *, required):
    if rnd.random() < (0.02 if required else 0.15):
        return None
    match prop.kind:
        case "String":
            return rnd.choice(TEXTS)
        case "I32":
            return rnd.choice([-3, -1, 0, 0, 1, 2, 2**31 - 1, 2**31 if rnd.random() < 0.1 else 1])
        case "F64":
            return rnd.choice([-2.5, -0.5, 0.0, 1.0, 2.5])
        case "Bool":
            return rnd.random() < 0.5
        case "Date":
            return EPOCH[rnd.choice(DAYS)]
    return rnd.choice([*prop.values, *prop.values, "blue" if rnd.random() < 0.2 else "red"])


def make_insert(rnd, model):
    name = rnd.choice([*model.nodes, *model.edges])
    entity = model.nodes.get(name) or model.edges[name]
    values = {
        prop.name: make_value(rnd, prop, required=prop.required)
        for prop in entity.props
        if prop.required or rnd.random() < 0.7
    }
    if isinstance(entity, Edge):
        for end, type_name in (("from", entity.src), ("to", entity.dst)):
            known = list(model.rows[type_name]) or ["nobody"]
            values[end] = (
                rnd.choice(known) if rnd.random() < 0.92 else rnd.choice(["no", "a", None])
            )
    elif not values:
        return make_insert(rnd, model)
    return Statement("insert", name, values)


def make_update(rnd, model):
    node = model.nodes[rnd.choice(list(model.nodes))]
    free = [prop for prop in node.props if prop.name not in node.key]
    if not free:
        return make_insert(rnd, model)
    chosen = rnd.sample(free, rnd.randint(1, len(free)))
    values = {p.name: make_value(rnd, p, required=p.required) for p in chosen}
    return Statement("update", node.name, values, make_where(rnd, node.props))


def make_where(rnd, props):
    prop = rnd.choice(props)
    return (
        prop.name,
        rnd.choice(["=", "=", "!=", "<", "<=", ">", ">="]),
        make_value(rnd, prop, required=False),
    )


def make_delete(rnd, model):
    if rnd.random() < 0.5 or not model.edges:
        node = model.nodes[rnd.choice(list(model.nodes))]
        return Statement("delete", node.name, where=make_where(rnd, node.props))
    edge = model.edges[rnd.choice(list(model.edges))]
    end, type_name = rnd.choice([("from", edge.src), ("to", edge.dst)])
    if edge.props and rnd.random() < 0.5:
        return Statement("delete", edge.name, where=make_where(rnd, edge.props))
    known = list(model.rows[type_name]) or ["nobody"]
    return Statement("delete", edge.name, where=(end, "=", rnd.choice(known)))


def make_statements(rnd, model):
    if rnd.random() < 0.25:
        return [make_delete(rnd, model) for _ in range(rnd.randint(1, 3))]
    makers = [make_insert, make_insert, make_insert, make_update]
    return [rnd.choice(makers)(rnd, model) for _ in range(rnd.randint(1, 5))]


def make_load(rnd, model):
    """A mode and records for it; most of them sound, so that the set rules get their turn."""
    mode = rnd.choice(["merge", "append", "overwrite"])
    tables = [*model.nodes, *model.edges]
    if mode == "overwrite":
        tables = rnd.choice([tables, tables, list(model.edges), rnd.sample(tables, 1)])
    known = {name: list(rows) for name, rows in model.rows.items()}
    if mode == "overwrite" and rnd.random() < 0.8:
        known |= {name: [] for name in tables if name in model.nodes}
    records = []
    for name in tables:
        for _ in range(rnd.choice([0, 1, 1, 2, 3])):
            make = make_node_record if name in model.nodes else make_edge_record
            record = make(rnd, model, name, known)
            if record is None:
                continue
            # An input of a few values would otherwise hardly ever bring only new ids.
            if mode == "merge" or not is_known(model, record, records) or rnd.random() < 0.1:
                records.append(record)
    if not records and rnd.random() < 0.8:
        return make_load(rnd, model)
    rnd.shuffle(records)
    return mode, records


def is_known(model, record, records):
    """Whether the id of the record is in the graph or in the input; as far as it has one."""
    row_id = named(model, record)
    others = [named(model, other) for other in records if other.type_name == record.type_name]
    return row_id is not None and (row_id in model.table(record.type_name) or row_id in others)


def named(model, record):
    node = model.nodes.get(record.type_name)
    if node is None or not node.key or any(record.values[part] is None for part in node.key):
        return record.row_id
    return model.key_id(node, record.values)


def make_node_record(rnd, model, name, known):
    node = model.nodes[name]
    record = Record(name, make_values(rnd, node.props))
    if not node.key:
        taken = [*known[name], "n1", "n2", "ö"]
        record.row_id = rnd.choice(taken) if rnd.random() < 0.7 else None
    elif (derived := named(model, record)) is not None:
        record.row_id = rnd.choices([None, derived, "nope"], [80, 18, 2])[0]
        known[name].append(derived)
    if record.row_id is not None:
        known[name].append(record.row_id)
    return record


def make_edge_record(rnd, model, name, known):
    edge = model.edges[name]
    ends = [rnd.choice(known[kind] or ["nobody"]) for kind in (edge.src, edge.dst)]
    if "nobody" in ends and rnd.random() < 0.9:
        return None
    if rnd.random() < 0.03:
        ends[rnd.randrange(2)] = rnd.choice(["nobody", None])
    taken = [*model.links[name], "e1", "e2"]
    row_id = rnd.choice(taken) if rnd.random() < 0.5 else None
    return Record(name, make_values(rnd, edge.props), row_id, *ends)


def make_values(rnd, props):
    values = {}
    for prop in props:
        if not prop.required and rnd.random() < 0.3:
            continue
        value = make_value(rnd, prop, required=prop.required)
        while rnd.random() < 0.9 and is_bad(prop, value):
            value = make_value(rnd, prop, required=prop.required)
        values[prop.name] = value
    return values


def is_bad(prop, value):
    absent = prop.required and value is None
    return absent or value == 2**31 or any(row_kinds([prop], {prop.name: value}))


def json_record(model, record):
    entity = model.nodes.get(record.type_name) or model.edges[record.type_name]
    kinds = {prop.name: prop.kind for prop in entity.props}
    data = {name: json_of(kinds[name], value) for name, value in record.values.items()}
    if record.row_id is not None:
        data["id"] = record.row_id
    if isinstance(entity, Node):
        return {"type": entity.name, "data": data}
    return {"edge": entity.name, "from": record.src, "to": record.dst, "data": data}


def kind_of(error):
    """The kind of refusal that the plain model would give for the same."""
    match error:
        case InputError():
            return "input"
        case KeyConflict():
            return "key"
    return error.details["violation"]
