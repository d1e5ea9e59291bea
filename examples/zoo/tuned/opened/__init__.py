"""Cases that were held out until their outcomes were seen."""
