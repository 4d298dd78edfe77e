package sourcestats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// DefaultRoot returns the folder of the Go toolchain's own source. It fails where there is no toolchain, or
// one that was installed without its source; then a folder has to be named.
func DefaultRoot(ctx context.Context) (string, error) {
	// Left by the build of this program: of no meaning if it was built elsewhere, hence the look at the folder.
	if source := sourceIn(runtime.GOROOT()); source != "" { //nolint:staticcheck // see above
		return source, nil
	}
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT")
	// A go.mod here that asks for another toolchain must not make the command download one.
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the source of the Go toolchain: go env GOROOT: %w", err)
	}
	goroot := strings.TrimSpace(string(out))
	if source := sourceIn(goroot); source != "" {
		return source, nil
	}
	return "", errors.New("the Go toolchain in " + goroot + " came without its source")
}

// sourceIn returns the folder of source code in a toolchain, or nothing if it has none.
func sourceIn(goroot string) string {
	if goroot == "" {
		return ""
	}
	source := filepath.Join(goroot, "src")
	if info, err := os.Stat(filepath.Join(source, "fmt")); err != nil || !info.IsDir() {
		return ""
	}
	return source
}
