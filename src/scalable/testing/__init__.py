"""What others need to test against this package."""
