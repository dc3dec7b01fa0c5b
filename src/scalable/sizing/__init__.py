"""How big things are and whether they fit: packing, placement, margins and the memory check before a run."""
