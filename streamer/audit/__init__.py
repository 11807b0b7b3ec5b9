"""The audit: finds out what all releases of an anonymous table tell together."""
