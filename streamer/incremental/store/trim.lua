-- Drops the values of the outbox that are of commits up to a number.
--
-- KEYS  1 meta  2 outbox    ARGV  1 fence  2 number of the last published commit
-- Returns the number of values dropped, -1 fenced.
--
-- A value begins with the number of its commit and a colon. Numbers ascend along the list, so the last value tells
-- whether all of it goes, which is the usual case.
local SLICE = 1000
local outbox, published = KEYS[2], tonumber(ARGV[2])

local function is_published(entry)
  return tonumber(string.match(entry, '^(%d+):')) <= published
end

if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return -1 end
local length = redis.call('LLEN', outbox)
if length == 0 then return 0 end
if is_published(redis.call('LINDEX', outbox, -1)) then
  redis.call('DEL', outbox)
  return length
end

local dropped, more = 0, true
while more do
  more = false
  for _, entry in ipairs(redis.call('LRANGE', outbox, dropped, dropped + SLICE - 1)) do
    more = is_published(entry)
    if not more then break end
    dropped = dropped + 1
  end
end
redis.call('LTRIM', outbox, dropped, -1)
return dropped
