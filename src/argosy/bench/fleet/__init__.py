"""A search fleet of real processes on this machine, as people meet it: a front door, four nodes and a Valkey.

run         the bench: what is measured, in which order
figures     the figures and the goals they are judged by
members     the processes: started, waited for, killed
origins     the repositories they are given: a corpus in twenty parts, and many small ones
asking      questions over HTTP, one by one, at a steady rate, or as fast as they are answered
traffic     what a Valkey was asked to do
overhead    what the front door adds to a node's answer
loading     two hundred questions a second, and as many as there can be; beside ripgrep and zoekt
importing   from `repo import` until everything is ready
losing      a node is killed under questions
handing     a node hands its index on, against making it anew
"""
