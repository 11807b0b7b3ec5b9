"""The report of one anonymization as a page."""
