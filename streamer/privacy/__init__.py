"""Privacy models, which every QI group must hold before it may leave: as predicates, by group and row by row."""
