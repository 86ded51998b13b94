"""Tasks over a git repository: requests and answers are files (docs/git-bus.md).

The table is the truth. What is kept of a repository on disk can be thrown away at any moment.
"""
