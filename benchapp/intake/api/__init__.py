"""The POST path: body limits, token, INSERT."""
