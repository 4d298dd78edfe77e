//go:build unix

package pglocal

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeProgram writes a file that is going to be run. No process may be started meanwhile: it would inherit the
// open file, and until it has become another program the kernel refuses to run a file that somebody can write
// ("text file busy").
func writeProgram(t *testing.T, path, content string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
}

func TestAProgramCanBeRunAsSoonAsItIsWritten(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 20 {
				fakeServer(t, folder+"/"+t.Name(), "17.5")
				b, err := inspect(t.Context(), folder+"/"+t.Name())
				require.NoError(t, err)
				require.Equal(t, "17.5", b.version)
			}
		})
	}
}
