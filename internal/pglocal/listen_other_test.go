//go:build !linux

package pglocal_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// listeningPorts returns the TCP ports that a process listens on.
func listeningPorts(t *testing.T, pid int) []int {
	t.Helper()
	// lsof fails when there is nothing to list.
	out, _ := exec.Command("lsof", "-nP", "-a", "-p", strconv.Itoa(pid), "-iTCP", "-sTCP:LISTEN").Output()
	var ports []int
	for _, m := range regexp.MustCompile(`:(\d+) \(LISTEN\)`).FindAllSubmatch(out, -1) {
		port, err := strconv.Atoi(string(m[1]))
		require.NoError(t, err)
		ports = append(ports, port)
	}
	return ports
}
