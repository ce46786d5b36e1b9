"""Submission → runs, measurements, series; summaries; reparse."""
