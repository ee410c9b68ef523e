"""Syntax tree to plan: checks a query against a catalog and builds its IR.

``check`` is the way in; each other module holds the rules of one part of a query, with the rule's
number (T1, T2, …) in every refusal. ``lower`` then orders the steps of a checked query.
Imports `lang.query.syntax`, `lang.query.ir` and the catalog of `lang.schema`.

The rules, by the code that a failure carries:

    T1   unknown node type in a binding            T15  bad hop bounds; bad arguments of nearest
    T2   unknown property in an inline entry       T16  update of an edge type
    T3   literal that does not suit its property   T17  nearest without limit
    T4   unknown edge                              T18  nearest beside other sort keys
    T5   endpoint type that does not fit the edge  T19  argument kinds of search and fuzzy
    T6   unbound variable, unknown $x.p            T20  argument kinds of match_text and bm25
    T7   incompatible comparison or assignment     T21  rrf: no limit, bad k, arms that differ
    T8   wrong argument of an aggregate            T22  undirected over unequal endpoint types
    T9   not without an outer variable; an item    T23  misuse of an edge variable
         beside aggregates that is no key          T24  Blob used as a value
    T10  unknown type in a mutation                T25  bad declaration of a parameter
    T11  unknown property in a mutation            T26  scoping: unbound, two types, a clash
    T12  insert without a required property        T27  nested or mixed list literal
    T13  property assigned twice                   T28  output: duplicate column, unknown alias,
    T14  $name that is no declared parameter            unorderable key, score out of place
"""
