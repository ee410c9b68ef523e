"""Values of properties: columns, comparisons between them, and sums that do not wrap.

``space`` says what a variable ranges over, ``column`` holds one property of it, ``comparison`` and
``predicates`` test values and rows. This room imports ``kernels`` only, for the array types.
"""
