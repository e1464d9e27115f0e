"""The optimal schedule of a layer's operators on the cores of a chip."""
