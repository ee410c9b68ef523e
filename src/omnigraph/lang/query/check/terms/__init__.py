"""Expressions and conditions: literals, operands, functions, paths, text predicates and rankings."""
