-- Drops the outbox entries of commits up to a number.
--
-- KEYS  1 meta  2 outbox    ARGV  1 fence  2 number of the last published commit
-- Returns the number of entries dropped, -1 fenced.
--
-- An entry begins with the number of its commit and a colon. Numbers ascend along the list, so halving finds the first
-- entry that stays.
local outbox, published = KEYS[2], tonumber(ARGV[2])

local function is_published(entry)
  return tonumber(string.match(entry, '^(%d+):')) <= published
end

if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return -1 end
local dropped, stays = 0, redis.call('LLEN', outbox)
while dropped < stays do
  local middle = math.floor((dropped + stays) / 2)
  if is_published(redis.call('LINDEX', outbox, middle)) then dropped = middle + 1 else stays = middle end
end
redis.call('LTRIM', outbox, dropped, -1)
return dropped
