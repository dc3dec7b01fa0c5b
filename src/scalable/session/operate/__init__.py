"""The outside of a live session, for people and programs: figures, alerts, kills, plans to go back to."""
