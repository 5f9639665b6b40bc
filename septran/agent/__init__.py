"""The leaf writer: from a LeafSpec and a DSL's documentation, through a model, to a verified leaf."""
