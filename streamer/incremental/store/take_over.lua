-- A new fence for one shard: a counter, and a token that no other worker can guess or repeat, because a counter alone
-- would start again where a shard's keys were lost.
--
-- KEYS  1 meta    ARGV  1 token
-- Returns the fence. The same token again is a repeated call: it gets the same fence.
local fence = redis.call('HGET', KEYS[1], 'fence')
if fence and string.match(fence, '-(.*)$') == ARGV[1] then return fence end
fence = redis.call('HINCRBY', KEYS[1], 'takeovers', 1) .. '-' .. ARGV[1]
redis.call('HSET', KEYS[1], 'fence', fence)
return fence
