"""The command line: parse, call the project, render, exit code."""
