"""What the providers of clouds share: how a worker is handed its certificates, started, watched and cleared away."""
