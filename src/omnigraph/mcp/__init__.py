"""Tools for agents, by the Model Context Protocol: the operations of a graph, and its stored queries.

``tools`` says which there are and what they take, from the table of operations; ``tool_runners`` run them on
an open graph or through a server; ``messages`` speaks the protocol, with the SDK of the extra `mcp`.
"""
