"""Workers on Google Cloud: instances of Compute Engine."""
