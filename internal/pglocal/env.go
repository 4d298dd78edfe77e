package pglocal

import (
	"os"
	"slices"
)

// serverEnv is the environment of the server and its tools: where the system's
// programs and libraries are, and nothing that changes what PostgreSQL does.
func serverEnv() []string {
	env := []string{"LC_ALL=C"} // plain messages; also, macOS needs one that is valid
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR", "SystemRoot", "TEMP"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return slices.Clip(env)
}
