"""Real systems to test against, started by the tests themselves, and ``mutants``, which tests the tests."""
