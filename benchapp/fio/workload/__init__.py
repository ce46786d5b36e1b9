"""Options, block sizes, identity of a workload."""
