"""Pages of rules: who signs what, their draft and its preview; groups of people who sign."""
