"""Charts as SVG and PNG: one module for each kind of chart; matplotlib is loaded by the first image."""
