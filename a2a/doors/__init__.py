"""Optional ways to bring tasks and calls; each is a Django app that may be left out."""
