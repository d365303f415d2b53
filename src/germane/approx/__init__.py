"""Approximate XML: transformations with costs, documents, and patterns that find them."""
