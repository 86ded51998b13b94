"""What operators do with a running installation, by the commands of docs/scaling.md."""
