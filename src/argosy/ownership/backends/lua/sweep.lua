-- Ends the sessions whose time is up, which every script does first, and looks whether the server is still the same run, so
-- that the grace after a restart begins with the next sweep and not with the next grant.

since()
return {'ok'}
