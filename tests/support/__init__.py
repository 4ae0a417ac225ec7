"""What tests stand on: servers of their own, and short ways to make jobs."""
