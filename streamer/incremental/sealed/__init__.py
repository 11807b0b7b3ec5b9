"""The sealed changelog: people are published once, in cohorts that are never altered, and cohorts are retired whole."""
