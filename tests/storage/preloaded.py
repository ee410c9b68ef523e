"""What the fork server of the tests has loaded, so that its children need not: a second each.

Nothing here calls Lance, whose threads would not survive a fork.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import warnings

import omnigraph
from omnigraph.lang.query.syntax.parser import parse as parse_query
from omnigraph.lang.schema.syntax.parser import parse as parse_schema
from omnigraph.storage.tables.lance_import import lance

# They load Spark, the command line, a web server or a compiler on import.
LEFT_OUT = (
    "omnigraph.spark",
    "omnigraph.cli",
    "omnigraph.mcp",
    "omnigraph.server",
    "omnigraph.read.kernels.numba_loops",
)

for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
    if not module.name.startswith(LEFT_OUT) and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
lance()
for name in (
    *("duckdb", "lance.fragment", "pyarrow.compute", "pytest", "typer"),
    *(
        "anyio.to_thread",
        "encodings.idna",
        "httpcore2",
        "truststore",
    ),  # what a client loads when it connects
    *(
        "numpy.ma",
        "platformdirs",
        "pyarrow.json",
        "ulid",
    ),  # what a load or a query imports when it runs
):
    importlib.import_module(name)
# The grammars are read on first use.
parse_schema("node N { k: String @key }")
parse_query("query q() { match { $n: N } return { $n.k } }")
warnings.filterwarnings("ignore", "lance is not fork-safe")
# A child whose collector looks at all of this would copy it.
gc.collect()
gc.freeze()
