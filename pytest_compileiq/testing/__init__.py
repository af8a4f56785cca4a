"""What other people's code is tested with: conformance suites, and fakes."""
