"""Random questions in two languages: a query, and the same in SQL over the tables of ``sql_helpers``.

The two are made side by side from the same choices, so neither is translated from the other.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

NUMBERS = ["age", "height", "weight"]
WORDS = ["ann", "Bob", "z", "", "n"]
Pair = tuple[str, str]


@dataclass
class Question:
    """One question on its way to both texts."""

    rng: random.Random
    persons: list[str] = field(default_factory=lambda: ["p"])
    required: list[str] = field(default_factory=lambda: ["p"])
    """Those that every row has."""

    def texts(self) -> Pair:
        """The query and the SQL; rows of both are compared as bags."""
        clauses, tables = ["$p: Person"], '"Person" AS p'
        for _ in range(self.rng.randint(0, 2)):
            clause, joined = self.join()
            clauses.append(clause)
            tables += joined
        query, where = self.condition()
        clauses.append(f"({query})")
        shown, selected = self.output()
        match = "\n    ".join(clauses)
        return (
            f"query q() {{\n  match {{\n    {match}\n  }}\n  return {shown}\n}}",
            f"SELECT {selected[0]} FROM {tables} WHERE {where} {selected[1]}",
        )

    def join(self) -> Pair:
        """One hop, there or optional, along edges of one or two types, with or without an edge variable."""
        rng, at = self.rng, len(self.persons)
        optional = rng.random() < 0.6
        start, end = rng.choice(self.persons if optional else self.required), f"q{at}"
        word = rng.choice(["knows", "follows", "knows|follows"])
        stored = [f'"{name.capitalize()}"' for name in word.split("|")]
        table = " UNION ALL ".join(f"SELECT id, src, dst, since FROM {name}" for name in stored)
        if rng.random() < 0.4:
            test, where = rng.choice(
                [("since > 1", "since > 1"), ("since is null", "since IS NULL"),
                 ("not since = 1", "NOT coalesce(since = 1, false)")]
            )  # fmt: skip
            word, table = f"{word}[{test}]", f"SELECT * FROM ({table}) WHERE {where}"
        edge = f"e{at}" if rng.random() < 0.5 else None
        if edge is None:
            table = f"SELECT DISTINCT src, dst FROM ({table})"
        hop = f"${start} {f'${edge}:' if edge else ''}{word} ${end}"
        query, where = self.test(end)
        self.persons.append(end)
        if not optional:
            self.required.append(end)
        alias = edge or f"t{at}"
        inside = (
            f'({table}) AS {alias} JOIN "Person" AS {end} ON {alias}.dst = {end}.id AND {where}'
        )
        if optional:
            on = f"{alias}.src = {start}.id"
            return f"optional {{ {hop}  ({query}) }}", f" LEFT JOIN ({inside}) ON {on}"
        return f"{hop}  ({query})", f" JOIN ({inside}) ON {alias}.src = {start}.id"

    # -- conditions

    def condition(self, depth: int = 0) -> Pair:
        """A condition, satisfied or not."""
        rng, kind = self.rng, self.rng.random()
        if depth > 2 or kind < 0.4:
            return self.test(rng.choice(self.persons))
        if kind < 0.55:
            query, sql = self.condition(depth + 1)
            return f"not ({query})", f"(NOT {sql})"
        if kind < 0.65:
            return self.exists()
        (one, left), (two, right) = self.condition(depth + 1), self.condition(depth + 1)
        word = rng.choice(["or", "and"])
        return f"({one} {word} {two})", f"({left} {word.upper()} {right})"

    def exists(self) -> Pair:
        """`exists` or `not` of a hop."""
        var = self.rng.choice(self.persons)
        query, sql = self.test("x")
        inner = (
            f'SELECT 1 FROM "Knows" AS k JOIN "Person" AS x ON k.dst = x.id '
            f"WHERE k.src = {var}.id AND {sql}"
        )
        word, negated = self.rng.choice([("exists", ""), ("not", "NOT ")])
        return f"{word} {{ ${var} knows $x  ({query}) }}", f"({negated}EXISTS ({inner}))"

    def test(self, var: str) -> Pair:
        """One test of a person."""
        rng, kind = self.rng, self.rng.random()
        op = rng.choice(["=", "!=", "<", "<=", ">", ">="])
        (one, left), (two, right) = self.number(var), self.number(var)
        text, column = rng.choice(
            [(f"${var}.{name}", f"{var}.{name}") for name in ("name", "nick")]
        )
        word = rng.choice(WORDS)
        pairs = [
            (f"{one} {op} {two}", f"{left} {op.replace('!=', '<>')} {right}"),
            (f"{one} is null", f"{left} IS NULL"),
            (f"{one} is not null", f"{left} IS NOT NULL"),
            (f'{text} {op} "{word}"', f"{column} {op.replace('!=', '<>')} '{word}'"),
            (f'{text} in ["ann", "{word}"]', f"{column} IN ('ann', '{word}')"),
            (f'{text} ends_with "{word}"', f"ends_with({column}, '{word}')"),
            (f'lower({text}) contains "{word}"', f"contains(lower({column}), '{word}')"),
            (f"${var}.active", f"{var}.active"),
            (f"length({text}) > 1", f"length({column}) > 1"),
        ]  # fmt: skip
        query, sql = pairs[int(kind * len(pairs))]
        return query, f"coalesce({sql}, false)"

    def number(self, var: str, depth: int = 0) -> Pair:
        """A number of a person."""
        rng = self.rng
        name = rng.choice(NUMBERS)
        # F32 is widened, as in arithmetic of the language.
        plain = (f"${var}.{name} + 0.0", f"CAST({var}.{name} AS DOUBLE)")
        kind = rng.random()
        if depth > 1 or kind < 0.5:
            return plain
        if kind < 0.7:
            op = rng.choice("+-*")
            (one, left), (two, right) = self.number(var, depth + 1), self.number(var, depth + 1)
            return f"(({one}) {op} ({two}))", f"(({left}) {op} ({right}))"
        if kind < 0.8:
            (one, left), (two, right) = self.number(var, depth + 1), self.number(var, depth + 1)
            return f"coalesce({one}, {two})", f"coalesce({left}, {right})"
        if kind < 0.9:
            (one, left), (two, right) = self.number(var, depth + 1), self.number(var, depth + 1)
            condition, sql = f"${var}.active", f"{var}.active"
            return f"if({condition}, {one}, {two})", f"CASE WHEN {sql} THEN {left} ELSE {right} END"
        return f"abs({plain[0]})", f"abs({plain[1]})"

    # -- output

    def output(self) -> tuple[str, Pair]:
        """Groups, distinct rows or rows; the second of the pair is what follows the conditions."""
        rng, kind = self.rng, self.rng.random()
        var = rng.choice(self.persons)
        query, sql = self.number(var)
        key, column = rng.choice(
            [(f"${var}.nick", f"{var}.nick"), (f"${var}.active", f"{var}.active"), (f"id(${var})", f"{var}.id")]
        )  # fmt: skip
        if kind < 0.25:
            return f"{{ {key} as k, {query} as v }}", (f"{column} AS k, {sql} AS v", "")
        if kind < 0.45:
            return f"distinct {{ {key} as k, {query} as v }}", (
                f"DISTINCT {column} AS k, {sql} AS v",
                "",
            )
        counted = rng.choice(self.persons)
        shown = [
            ("count(*) as a", "count(*) AS a"),
            (f"count(id(${counted})) as b", f"count({counted}.id) AS b"),
            (f"count(distinct ${counted}.nick) as c", f"count(DISTINCT {counted}.nick) AS c"),
            (f"min({query}) as d", f"min({sql}) AS d"),
            (f"max({query}) as e", f"max({sql}) AS e"),
            (f"sum({query}) as f", f"sum({sql}) AS f"),
            (f"collect(distinct ${counted}.nick) as g",
             f"coalesce(list_sort(list(DISTINCT {counted}.nick) FILTER ({counted}.nick IS NOT NULL)), []) AS g"),
        ]  # fmt: skip
        some = [("count(*) as n", "count(*) AS n"), *rng.sample(shown, rng.randint(1, 3))]
        having, tail = ("", "")
        if rng.random() < 0.4:
            having, tail = " having { n > 1 }", " HAVING count(*) > 1"
        queries, columns = ", ".join(one for one, _ in some), ", ".join(two for _, two in some)
        return (
            f"{{ {key} as k, {queries} }}{having}",
            (f"{column} AS k, {columns}", f"GROUP BY {column}{tail}"),
        )
