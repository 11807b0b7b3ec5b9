"""What is published of a table: rows, groups, and their schemas."""
