"""Sound trainings, each with the loop and the loss formula of a well-known tutorial or repository."""
