"""The command line: arguments in, tables or JSON out, no logic."""
