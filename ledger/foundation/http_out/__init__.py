"""HTTP to addresses that others gave us: checked, with deadlines, over kept connections."""
