package migrations

// LockKey is the key of the advisory lock, for tests to hold it.
var LockKey = lockKey //nolint:gochecknoglobals // An alias for the tests outside, never assigned.
