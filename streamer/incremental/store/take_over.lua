-- A new fence for one shard: a counter, and a token that no other worker can guess or repeat, because a counter alone
-- would start again where a shard's keys were lost.
--
-- KEYS  1 meta  2 custody
-- ARGV  1 token  2 the claim of a command that loads the table, '' for a worker
--       3... the tokens of its former fences, for one that may only take its own shard again
-- Returns the fence; -1 where another worker has it; -2 where another command loads the table. The same token again is
-- a repeated call: it gets the same fence.
if (redis.call('HGET', KEYS[2], 'beginning') or '') ~= ARGV[2] then return -2 end
local fence = redis.call('HGET', KEYS[1], 'fence')
local token = fence and string.match(fence, '-(.*)$')
if token == ARGV[1] then return fence end
local ours = #ARGV == 2
for i = 3, #ARGV do ours = ours or token == ARGV[i] end
if not ours then return -1 end
fence = redis.call('HINCRBY', KEYS[1], 'takeovers', 1) .. '-' .. ARGV[1]
redis.call('HSET', KEYS[1], 'fence', fence)
return fence
