"""What somebody who keeps every release of an anonymous table can find out from all of them together."""
