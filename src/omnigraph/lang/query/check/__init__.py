"""Syntax tree to plan: checks a query against a catalog and builds its IR.

``check`` is the way in; each other module holds the rules of one part of a query, with the rule's
number (T1, T2, …) in every refusal. ``blocks/lower`` orders the steps of a block.
Imports `lang.query.syntax`, `lang.query.ir` and the catalog of `lang.schema`.

The rules, by the code that a failure carries:

    T1   unknown node type in a binding            T20  argument kinds of match_text and bm25
    T2   unknown property in an inline entry       T21  rrf: no limit, bad k, arms that differ
    T3   literal that does not suit its property   T23  misuse of an edge variable
    T4   unknown edge                              T24  Blob used as a value
    T5   endpoint type that does not fit the edge  T25  bad declaration of a parameter
    T6   unbound variable, unknown $x.p            T26  scoping: unbound, two types, a clash
    T7   incompatible comparison or assignment     T27  nested or mixed list literal
    T8   wrong argument of an aggregate            T28  output: duplicate column, unknown alias,
    T9   a block without an outer variable; an          unorderable key, score out of place
         item beside aggregates that is no key     T29  operator or function: kinds, number, unit
    T10  unknown type in a mutation                T30  optional: introduces nothing, inside not,
    T11  unknown property in a mutation                 its variable where every row needs it
    T12  insert without a required property        T31  distinct with aggregates, rankings, vectors
    T13  property assigned twice                   T32  limit or offset of no required integer
    T14  $name that is no declared parameter       T33  alternatives that run both ways
    T15  bad hop bounds; bad arguments of nearest  T34  paths: by, cost, or used as something else
    T16  assignment of an end of an edge           T35  sources: unknown, recursive, arguments
    T17  nearest without limit                     T36  target of a mutation: no variable, no key
    T19  argument kinds of search and fuzzy        T37  operand of having that is no output column
                                                   T38  a moment that is no date, two moments of one variable
"""
