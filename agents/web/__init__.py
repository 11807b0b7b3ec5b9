"""What a worker shows of itself over HTTP: metrics, health, and a page."""
