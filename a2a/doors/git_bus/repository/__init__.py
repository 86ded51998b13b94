"""Access to a git repository: the program, commits, files, signatures."""
