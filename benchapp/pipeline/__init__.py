"""Judge.py joins detection, incidents and notifications; hosts, identity of series, studies, exclusions."""
