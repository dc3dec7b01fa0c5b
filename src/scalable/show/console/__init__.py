"""The web page on which an operator sees runs and acts on them; it reads run folders and needs no running session."""
