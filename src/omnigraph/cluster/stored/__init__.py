"""What a cluster keeps under `__cluster`: ledger, lock, catalogue, approvals, recovery files."""
