"""The HTTP server: the operations of the service layer, for many callers and over the network.

It needs the extra ``server``. Nothing else of the product imports it.
"""
