"""From fresh samples to claims: the gate applied."""
