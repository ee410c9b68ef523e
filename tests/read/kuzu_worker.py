"""Kùzu in a process of its own, which it takes along when it crashes: a query a line, answers as JSON.

python kuzu_worker.py DATABASE
"""

from __future__ import annotations

import json
import sys

import kuzu

PATIENCE_MS = 5_000


def main() -> None:
    """Answer until the queries end."""
    database = kuzu.Database(sys.argv[1], buffer_pool_size=2**28)
    connection = kuzu.Connection(database, num_threads=2)
    connection.set_query_timeout(PATIENCE_MS)
    for line in sys.stdin:
        try:
            result = connection.execute(json.loads(line))
            answer = {"rows": []}
            while result.has_next():
                answer["rows"].append(result.get_next())
            result.close()
        except RuntimeError as error:
            answer = {"error": str(error)}
        # Sums arrive as Decimal.
        sys.stdout.write(json.dumps(answer, default=float) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
