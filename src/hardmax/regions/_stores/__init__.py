"""Searches that outlive their process: tasks as bytes, jobs, and the folder they are kept in."""
