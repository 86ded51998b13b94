"""For whoever watches the processes: names on log lines, counters, traces."""
