-- Drops the values of the outbox that are of commits up to a number.
--
-- KEYS  1 meta  2 outbox    ARGV  1 fence  2 number of the last published commit
-- Returns the number of values dropped, -1 fenced.
--
-- A value begins with the number of its commit and a colon. Numbers ascend along the list, so halving finds the first
-- value that stays.
local outbox, published = KEYS[2], tonumber(ARGV[2])

local function is_published(value)
  return tonumber(string.match(value, '^(%d+):')) <= published
end

if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return -1 end
local dropped, stays = 0, redis.call('LLEN', outbox)
while dropped < stays do
  local middle = math.floor((dropped + stays) / 2)
  if is_published(redis.call('LINDEX', outbox, middle)) then dropped = middle + 1 else stays = middle end
end
redis.call('LTRIM', outbox, dropped, -1)
return dropped
