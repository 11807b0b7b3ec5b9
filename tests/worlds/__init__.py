"""Worlds that tests stand in: small tables, builders, twins and models."""
