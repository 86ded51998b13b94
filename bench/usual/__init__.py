"""What the desk calls unusual: ordinary requests, and errors planted among them."""
