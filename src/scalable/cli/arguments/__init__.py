"""What each command takes, by what the commands are for."""
