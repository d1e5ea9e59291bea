"""A datapoint's debug outputs as typed nodes, as pictures and as HTML; pages are opened in a process with limits."""
