"""`millrace work`, the real binary, against the real server."""
