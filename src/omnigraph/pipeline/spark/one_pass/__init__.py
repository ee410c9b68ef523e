"""Loads that append or overwrite, in one pass: tasks write rows as they read them.

`first_pass` is what runs on executors, `fingerprints` what it tells about values, `rule_proof` the check
of the set rules, `one_pass_rows` the rows of a table on their way into it.
"""
