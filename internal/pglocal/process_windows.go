package pglocal

import (
	"context"
	"fmt"
	"os/exec"

	"golang.org/x/sys/windows"
)

// launchIsServer says that the launched process ends well when the server runs.
const launchIsServer = false

// launchCommand goes through pg_ctl, which drops an administrator's rights.
func launchCommand(b binaries, f folder) *exec.Cmd {
	//nolint:noctx // the server outlives whoever starts it
	return exec.Command(b.path("pg_ctl"), "start", "--wait", "-D", f.data(),
		"-o", fmt.Sprintf(`-c "config_file=%s"`, f.config()))
}

// serves reports whether the process runs. Which program it is, the answer to a
// connection tells.
func serves(pid int, _ string) bool {
	handle, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid)) //nolint:gosec // process ids have 32 bits
	if err != nil {
		return false
	}
	defer func() { _ = windows.CloseHandle(handle) }()
	var code uint32
	const stillActive = 259
	return windows.GetExitCodeProcess(handle, &code) == nil && code == stillActive
}

// halt stops a running server without waiting for its clients, and returns once it
// is gone.
func halt(ctx context.Context, f folder, _ *postmaster, b binaries) error {
	out, err := exec.CommandContext(ctx, b.path("pg_ctl"), "stop", "--wait", "-m", "fast", "-D", f.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pglocal: stop the server: %w\n%s", err, out)
	}
	return nil
}
