"""What every end-to-end test shares: the server process, raw HTTP in both protocols, signatures.

Nothing here needs more than the Python standard library.
"""
