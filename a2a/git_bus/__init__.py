"""Tasks over a git repository: requests and answers are files, a claim is a rename (docs/git-bus.md).

The table is the truth. What is kept of a repository on disk can be thrown away at any moment.
"""
