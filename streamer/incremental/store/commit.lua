-- One commit of one shard: everything or nothing.
--
-- KEYS  1 meta  2 records  3 groups  4 similarity  5 outbox  6 statements  7.. one sorted set per changed similarity list
-- ARGV  1 fence  2 number of the commit before  3 number of this commit  4 encoded meta  5 statement ids to remember
--       6..13 how many values each of the eight sections has, then how many each sorted set gets, then the values
-- Returns the number of write commands and, after it, of similarity entries written: neighbours added, moved or removed,
-- one for a list that is gone; or a single 0 for a commit that is stored already, -1 fenced, -2 conflict.
--
-- Redis undoes nothing when a script fails in the middle, so all that can fail comes before the first change: the
-- comparisons, the reads (a key of a wrong type), and one write that changes nothing (a server that is full, read-only or
-- cannot save refuses it). `meta` is written last. Values go in slices, because unpack fails near 8,000 of them; a slice
-- is even, so that it never parts a field from its value.
local SLICE = 5000
local meta = KEYS[1]

local stored = redis.call('HMGET', meta, 'fence', 'commit', 'committed_by')
if stored[1] ~= ARGV[1] then return {-1} end
if stored[2] == ARGV[3] and stored[3] == ARGV[1] then return {0} end
if (stored[2] or '0') ~= ARGV[2] then return {-2} end

for i = 2, 4 do redis.call('HLEN', KEYS[i]) end
for i = 5, 6 do redis.call('LLEN', KEYS[i]) end
for i = 7, #KEYS do redis.call('ZCARD', KEYS[i]) end
redis.call('HSET', meta, 'fence', ARGV[1])

local SECTIONS = {
  {'HSET', KEYS[2]}, {'HDEL', KEYS[2]},
  {'HSET', KEYS[3]}, {'HDEL', KEYS[3]},
  {'HSET', KEYS[4]}, {'HDEL', KEYS[4]},
  {'RPUSH', KEYS[5]}, {'RPUSH', KEYS[6]},
}
local counts_at = 6
local values_at = counts_at + #SECTIONS + #KEYS - 6
local commands = 2

local function write(command, key)
  local last = values_at + tonumber(ARGV[counts_at]) - 1
  for first = values_at, last, SLICE do
    redis.call(command, key, unpack(ARGV, first, math.min(first + SLICE - 1, last)))
    commands = commands + 1
  end
  counts_at, values_at = counts_at + 1, last + 1
end

for _, section in ipairs(SECTIONS) do write(section[1], section[2]) end

-- A similarity list mostly changes in one place: only what differs is written.
local similarity_entries = 0
local function rewrite(list)
  local last = values_at + tonumber(ARGV[counts_at]) - 1
  local kept, gone = {}, {}
  for i = values_at + 1, last, 2 do kept[ARGV[i]] = true end
  for _, neighbour in ipairs(redis.call('ZRANGE', list, 0, -1)) do
    if not kept[neighbour] then gone[#gone + 1] = neighbour end
  end
  if last < values_at then
    similarity_entries = similarity_entries + redis.call('DEL', list)
    commands = commands + 1
  elseif #gone > 0 then
    similarity_entries = similarity_entries + redis.call('ZREM', list, unpack(gone))
    commands = commands + 1
  end
  for first = values_at, last, SLICE do
    local slice_end = math.min(first + SLICE - 1, last)
    similarity_entries = similarity_entries + redis.call('ZADD', list, 'CH', unpack(ARGV, first, slice_end))
    commands = commands + 1
  end
  counts_at, values_at = counts_at + 1, last + 1
end
for i = 7, #KEYS do rewrite(KEYS[i]) end

redis.call('LTRIM', KEYS[6], '-' .. ARGV[5], -1)
local now = redis.call('TIME')[1] -- for people to read: nothing depends on it
redis.call('HSET', meta, 'state', ARGV[4], 'commit', ARGV[3], 'committed_by', ARGV[1], 'committed_at', now)
return {commands + 1, similarity_entries}
