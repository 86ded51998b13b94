"""Charts of what was asked and decided; an app that may be absent."""
