"""Workers on the devices of a Ray cluster: a transport, which ``rooms`` names and nothing imports."""
