-- Ends expired sessions, which the prelude does, and notices a new run of the server. Without that, the grace period after a
-- restart would begin with the next grant instead of with the next sweep.

data_since()
return {'ok'}
