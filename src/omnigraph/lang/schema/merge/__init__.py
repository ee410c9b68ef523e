"""The three-way merge of schemas: from three schemas, and who changed which data, to one or to conflicts.

``merge.merge_schemas`` is the way in for merges, ``revert.revert_schema`` for reverts. Pure: it reads
no table and gives no id that it was not given.
"""
