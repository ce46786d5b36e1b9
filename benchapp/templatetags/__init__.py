"""Value formatting in templates."""
