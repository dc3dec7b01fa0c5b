"""Clusters to run on: the tagged Dask cluster, and one package per backend behind one protocol."""
