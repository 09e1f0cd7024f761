-- How counters are listed. Almost all of them count an address's requests, so the listing spells the two common beginnings
-- as one byte each: with thousands of addresses that is a tenth of what their counters take.

local STEMS = {'ratelimit:searchui:', 'ratelimit:adminlogin:'}
local PLAIN = '\3'                  -- before a name that begins with one of these three bytes itself

local function listed(name)
  for n, stem in ipairs(STEMS) do
    if string.sub(name, 1, #stem) == stem then return string.char(n) .. string.sub(name, #stem + 1) end
  end
  return string.find(name, '^[\1-\3]') and PLAIN .. name or name
end

local function named(member)
  local stem = STEMS[string.byte(member)]
  if stem then return stem .. string.sub(member, 2) end
  return string.sub(member, 1, 1) == PLAIN and string.sub(member, 2) or member
end

