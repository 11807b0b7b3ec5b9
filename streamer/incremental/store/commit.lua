-- One commit of one shard: everything or nothing.
--
-- KEYS  1 meta  2 records  3 groups  4 similarity  5 outbox  6 statements  7 origins  8 sealed  9 cohorts
--       10 changed  11.. sorted sets of an older streamer, which are removed
-- ARGV  1 fence  2 number of the commit before  3 number of this commit  4 encoded meta  5 statement ids to remember
--       6 1: nothing of what was kept stays but statement ids, last changes and what is sealed; 2: what is sealed does not
--         stay either
--       7..22 how many slices each of the sixteen sections has
--       23.. the slices: first the lengths of a slice's values, as numbers, then the values, one behind the other
--       Numbers are packed, four bytes each, the highest first.
-- Returns the number of write commands; 0 for a commit that is stored already, -1 fenced, -2 conflict.
--
-- Redis undoes nothing when a script fails in the middle, so all that can fail comes before the first change: the
-- comparisons, the reads (a key of a wrong type), and one write that changes nothing (a server that is full, read-only or
-- cannot save refuses it). `meta` is written last. A slice holds 5,000 values at most, because unpack fails near 8,000 of
-- them, and an even number, so that none parts a field from its value. One argument per value would cost the client four
-- times as much to send, and the server no less to read.
local SLICE = 5000
local byte, sub = string.byte, string.sub
local meta = KEYS[1]

local stored = redis.call('HMGET', meta, 'fence', 'commit', 'committed_by')
if stored[1] ~= ARGV[1] then return -1 end
if stored[2] == ARGV[3] and stored[3] == ARGV[1] then return 0 end
if (stored[2] or '0') ~= ARGV[2] then return -2 end

local FORMER = 11
for i = 2, 4 do redis.call('HLEN', KEYS[i]) end
for i = 5, 6 do redis.call('LLEN', KEYS[i]) end
for i = 7, FORMER - 1 do redis.call('HLEN', KEYS[i]) end
redis.call('HSET', meta, 'fence', ARGV[1])

local SECTIONS = {
  {'HSET', KEYS[2]}, {'HDEL', KEYS[2]},
  {'HSET', KEYS[3]}, {'HDEL', KEYS[3]},
  {'HSET', KEYS[4]}, {'HDEL', KEYS[4]},
  {'RPUSH', KEYS[5]}, {'RPUSH', KEYS[6]},
  {'HSET', KEYS[7]}, {'HDEL', KEYS[7]},
  {'HSET', KEYS[8]}, {'HDEL', KEYS[8]},
  {'HSET', KEYS[9]}, {'HDEL', KEYS[9]},
  {'HSET', KEYS[10]}, {'HDEL', KEYS[10]},
}
local slice_at = 7 + #SECTIONS
local commands = 2

local function number_at(packed, at)
  local a, b, c, d = byte(packed, at, at + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- The values of the next slice.
local function next_slice()
  local lengths, data, values, at = ARGV[slice_at], ARGV[slice_at + 1], {}, 1
  for i = 1, #lengths / 4 do
    local next_at = at + number_at(lengths, 4 * i - 3)
    values[i] = sub(data, at, next_at - 1)
    at = next_at
  end
  slice_at = slice_at + 2
  return values
end

if ARGV[6] ~= '0' then
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[7])
  commands = commands + 1
end
if ARGV[6] == '2' then
  redis.call('UNLINK', KEYS[8], KEYS[9])
  commands = commands + 1
end

for i, section in ipairs(SECTIONS) do
  for _ = 1, tonumber(ARGV[6 + i]) do
    redis.call(section[1], section[2], unpack(next_slice()))
    commands = commands + 1
  end
end

for first = FORMER, #KEYS, SLICE do
  redis.call('UNLINK', unpack(KEYS, first, math.min(first + SLICE - 1, #KEYS)))
  commands = commands + 1
end

redis.call('LTRIM', KEYS[6], '-' .. ARGV[5], -1)
local now = redis.call('TIME')[1] -- for people to read: nothing depends on it
redis.call('HSET', meta, 'state', ARGV[4], 'commit', ARGV[3], 'committed_by', ARGV[1], 'committed_at', now)
return commands + 1
