"""The explorer: a page in the browser for looking at a graph, and `omnigraph ui`, which opens it.

``page_files`` serves the built files of `ui/` under `/ui/`, on every server. ``sign_in`` hands a token to whoever
has the code of a link, and ``launch`` starts a server for one graph of this machine and prints such links;
both belong to `omnigraph ui` alone. What the page asks for afterwards are routes of the server.
"""
