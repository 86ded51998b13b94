"""One form from a JSON Schema: its fields, and the values that fill them and come back."""
