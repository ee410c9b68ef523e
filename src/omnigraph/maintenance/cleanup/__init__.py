"""Remove what nothing needs any more: what stays and why, and the removal itself."""
