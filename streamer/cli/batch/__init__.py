"""Commands on whole tables."""
