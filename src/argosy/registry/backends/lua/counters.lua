-- Members of the list of counters. Almost all counters count the requests of an address, so the list has the two common
-- prefixes as one byte each: with thousands of addresses that saves a tenth of the memory of their counters.

local STEMS = {'ratelimit:searchui:', 'ratelimit:adminlogin:'}
local PLAIN = '\3'                  -- before a name that itself begins with one of these three bytes

local function counter_member(name)
  for n, stem in ipairs(STEMS) do
    if string.sub(name, 1, #stem) == stem then return string.char(n) .. string.sub(name, #stem + 1) end
  end
  return string.find(name, '^[\1-\3]') and PLAIN .. name or name
end

local function counter_name(member)
  local stem = STEMS[string.byte(member)]
  if stem then return stem .. string.sub(member, 2) end
  return string.sub(member, 1, 1) == PLAIN and string.sub(member, 2) or member
end

