"""Read queries on Spark: a checked plan becomes operations on DataFrames, pinned to one snapshot.

`answer` runs a plan and hands over its rows, `frame` gives them as a lazy DataFrame. `refused` says which
forms stay local. `matching` turns the pattern of a plan into joins: `relations` makes the pairs of
traversals, `tables` reads nodes and edges, `blocks` judges what stands in braces, `sources` and `searches`
bring rows that are not of tables. `listed` and `grouped` make the output. An expression is a column of Spark
where Spark's rules are ours, and otherwise computed by the local engine on Arrow batches (`values`).
"""
