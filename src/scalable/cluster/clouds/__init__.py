"""The common part of cloud providers: handing a worker its certificates, starting, watching and clearing it away."""
