-- Gives a shard to one command that loads it, or keeps it for that command.
--
-- KEYS  1 custody    ARGV  1 a word that no other command has, 2 seconds until the claim ends by itself, 3 who claims,
--       or nothing: only the claim of this word is renewed, and ended by 0 seconds
-- Returns {claim}; {another claim or '', who has it, seconds until it ends by itself} where that is not to be had. The
-- same word again is a repeated call: it gets the same claim.
--
-- A claim is microseconds and the word: a later one has a higher number, also where the clock was set back.
local found = redis.call('HMGET', KEYS[1], 'claim', 'claimed_by', 'claimed_until')
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1e6 + tonumber(time[2])
local number, word = string.match(found[1] or '', '^(%d+)-(.*)$')
number = tonumber(number or 0)
local left = tonumber(found[3] or 0) - now / 1e6
local claim, lease = found[1], tonumber(ARGV[2])
if word ~= ARGV[1] and ARGV[3] and left > lease then -- the clock was set back: nobody claims for so long
  left = lease
  redis.call('HSET', KEYS[1], 'claimed_until', string.format('%.6f', now / 1e6 + left))
end
if word ~= ARGV[1] then
  if not ARGV[3] or left > 0 then
    return {found[1] or '', found[2] or '', string.format('%.0f', left)}
  end
  claim = string.format('%.0f', math.max(now, number + 1)) .. '-' .. ARGV[1]
  redis.call('HSET', KEYS[1], 'claimed_by', ARGV[3])
end
redis.call('HSET', KEYS[1], 'claim', claim, 'claimed_until', string.format('%.6f', now / 1e6 + lease))
return {claim}
