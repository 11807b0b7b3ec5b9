"""What a recoding cost the table, and what it still risks."""
