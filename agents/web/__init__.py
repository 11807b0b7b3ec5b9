"""A worker over HTTP: metrics, health, and a page."""
