"""Plans a schema change: the steps from the accepted schema to a new source, and what each costs.

``migration.plan`` is the way in; ``compare`` finds the differences, ``plan_steps`` names them.
Imports everything else in `lang.schema`.
"""
