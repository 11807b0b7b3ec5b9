-- Notes why a worker refused one shard, for people to read. Needs no fence: whoever refuses does not hold the shard.
--
-- KEYS  1 refused    ARGV  1 reason  2 owner
redis.call('HSET', KEYS[1], 'reason', ARGV[1], 'by', ARGV[2], 'at', redis.call('TIME')[1])
return 1
