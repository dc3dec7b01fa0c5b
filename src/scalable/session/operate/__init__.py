"""What people and other programs see of a live session and ask of it: figures, alerts, kills, plans to go back to."""
