"""The guard of the network, for the process of the tests and those that it starts."""
