"""Fresh samples to claims: the gate applied."""
