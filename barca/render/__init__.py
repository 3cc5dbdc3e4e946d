"""What people see: the dicts of the JSON contract and the events of a run as tables, progress and HTML.

Works on plain dicts and events only, so that the command line, notebooks and tests show the same thing.
Rich is imported when something is drawn, never before.
"""
