"""`omnigraph shell`: a prompt that runs queries, mutations and dot commands on one graph.

Text is cut into statements (`statements`), completed (`completion`) and coloured at the prompt
(`prompt`, the only module that needs prompt_toolkit), and run (`shell`).
"""
