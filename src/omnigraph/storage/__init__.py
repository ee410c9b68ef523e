"""Tables, control objects and locks under a graph root: the only place that touches a store."""
