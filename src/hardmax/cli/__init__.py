"""The command line. No mathematics lives here."""
