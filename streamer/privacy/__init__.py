"""What a QI group must satisfy before it may leave: models as predicates, by group, and row by row."""
