package pglocal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSharedBuffersFitTheMachine(t *testing.T) {
	t.Parallel()
	for memory, want := range map[uint64]uint64{
		0:          128 * mib, // not known
		64 * mib:   16 * mib,
		1024 * mib: 128 * mib,
		2048 * mib: 256 * mib,
		1 << 40:    256 * mib,
	} {
		require.Equal(t, want, sharedBuffers(memory), memory)
	}
	require.NotZero(t, totalMemory())
}

func TestSettingsAreQuoted(t *testing.T) {
	t.Parallel()
	f := folder(`/it's a\folder`)
	text := settings(f, address{socket: f.run(), port: 5432}, false, 0)
	require.Contains(t, text, `unix_socket_directories = '"/it''s a\\folder/run"'`)
	require.Contains(t, text, `listen_addresses = ''`)
}

func TestPostmasterFilesAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*postmaster{
		"":                               nil,
		"garbage":                        nil,
		"1\n2\n3\n4\n":                   {pid: 1, addr: address{port: 4}},
		"-1\n/data\n1\n5432\n/run\n":     nil,
		"x\n/data\n1\n5432\n/run\n":      nil,
		"7\n/data\n1\n5432\n/run\n\n":    {pid: 7, addr: address{socket: "/run", port: 5432}},
		"7\n/data\n1\n5433\n\n127.0.0.1": {pid: 7, addr: address{port: 5433}},
	} {
		require.Equal(t, want, parsePostmaster(text), text)
	}
}
