"""Millrace, a message queue server that speaks Amazon SQS: the program, and servers for tests."""

from millrace.server import Server, program

__all__ = ["Server", "program"]
