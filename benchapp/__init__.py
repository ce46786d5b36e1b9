"""The history of storage benchmarks, in a browser."""

import gc

# A page makes thousands of objects that die with it, a batch 100 000, and the modules objects that stay: by default,
# collections take a fifth of the time of a long table or a batch, and a fifteenth of the start of the web process.
gc.set_threshold(50_000, 20, 50)

__version__ = "0.1.0"
