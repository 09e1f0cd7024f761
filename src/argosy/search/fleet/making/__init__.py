"""How an index comes to be: the threads it is made in (`worker`), and the ways it comes by (`service`)."""
