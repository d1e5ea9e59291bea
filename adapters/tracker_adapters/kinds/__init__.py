"""The kinds of artifacts, one file each; images and histograms lie with what makes them."""
