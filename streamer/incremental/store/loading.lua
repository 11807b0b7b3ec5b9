-- What a command that has claimed a shard says to it.
--
-- KEYS  1 meta  2 custody    ARGV  1 its claim  2 what: see below  3.. fields of custody that "loaded" removes besides
--   "claimed"  older commands are shut out; where one has left its mark, the mark is this one's from now on
--   "loading"  the mark is set: from now on only this command may take the shard over
--   "loaded"   the mark is removed
-- Returns 0; 1 if a mark is set where none was; -1 if a later command has claimed the shard, and nothing is changed.
-- May be repeated.
local claim, what, custody = ARGV[1], ARGV[2], KEYS[2]

local function number_of(some)
  return tonumber(string.match(some, '^(%d+)-') or 0)
end

local newest, mark = unpack(redis.call('HMGET', custody, 'claim', 'beginning'))
if newest ~= claim and (what == 'loaded' or newest and number_of(newest) >= number_of(claim)) then return -1 end
if what == 'loaded' then
  redis.call('HDEL', custody, 'beginning', unpack(ARGV, 3))
  return 0
end
redis.call('HSET', custody, 'claim', claim)
if mark ~= claim and (mark or what == 'loading') then
  -- The fence changes with the mark, so whoever compares the fence compares the mark.
  redis.call('HSET', KEYS[1], 'fence', redis.call('HINCRBY', KEYS[1], 'takeovers', 1) .. '-' .. claim)
  redis.call('HSET', custody, 'beginning', claim)
end
if what == 'loading' and not mark then return 1 end
return 0
