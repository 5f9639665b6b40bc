"""What runs in a confined child while a module is imported."""
