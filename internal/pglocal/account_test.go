//go:build unix

package pglocal_test

import (
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/pglocal"
)

// strangerOf starts a process of the account that owns a folder.
func strangerOf(t *testing.T, folder string) int {
	t.Helper()
	cmd := exec.Command("cat") // waits for its input to end
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	runAsOwner(t, cmd, folder)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	})
	return cmd.Process.Pid
}

func runAsOwner(t *testing.T, cmd *exec.Cmd, folder string) {
	t.Helper()
	info, err := os.Stat(folder)
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	if int(owner.Uid) != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
}

// Root runs the tests of this package once more as an account without rights; others
// have them run without rights as it is.
func TestAllOfItWorksWithoutRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	uid, err := strconv.Atoi(nobody.Uid)
	require.NoError(t, err)
	gid, err := strconv.Atoi(nobody.Gid)
	require.NoError(t, err)

	folder := testFolder(t)
	home := filepath.Join(folder, "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	require.NoError(t, os.Chown(home, uid, gid))
	// Nobody can read what go test has built.
	self := filepath.Join(folder, filepath.Base(os.Args[0]))
	copyProgram(t, os.Args[0], self)
	cmd := exec.Command(self, "-test.run="+
		"Durable|Listens|DoesNotRunAsRoot|Adopted|KilledServer|ProcessID|HalfMade|TwoPrograms|InTheCacheFolder", "-test.v")
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestTheServerDoesNotRunAsRoot")
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	syscall.ForkLock.RLock() // a process started meanwhile would have the program open to write
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}

func TestTheClusterIsInTheCacheFolderUnlessSaidOtherwise(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(pglocal.CacheDirEnv, "")
	base := filepath.Dir(path(t, pglocal.Options{}))
	if os.Geteuid() == 0 {
		require.NotContains(t, base, home, "root's own folder lets no other account pass")
	} else {
		require.Contains(t, base, home)
		t.Setenv("HOME", "")
		_, err := pglocal.Path(t.Context(), pglocal.Options{})
		require.ErrorContains(t, err, pglocal.CacheDirEnv)
	}
	t.Setenv(pglocal.CacheDirEnv, "/by/env")
	require.Equal(t, "/by/env", filepath.Dir(path(t, pglocal.Options{})))
	require.Equal(t, "/by/option", filepath.Dir(path(t, pglocal.Options{Folder: "/by/option"})))
}

func path(t *testing.T, o pglocal.Options) string {
	t.Helper()
	p, err := pglocal.Path(t.Context(), o)
	require.NoError(t, err)
	return p
}

func TestRootRefusesFoldersThatOthersCanChange(t *testing.T) {
	t.Parallel()
	folder := testFolder(t)
	base := filepath.Join(folder, "base")
	require.NoError(t, os.Mkdir(base, 0o755))
	require.NoError(t, os.Chmod(base, 0o777))
	_, err := pglocal.Start(t.Context(), pglocal.Options{Folder: base, Unsafe: true})
	if os.Geteuid() != 0 {
		require.NoError(t, err) // theirs to lose
		require.NoError(t, pglocal.Stop(t.Context(), pglocal.Options{Folder: base, Unsafe: true, Force: true}))
		return
	}
	require.ErrorContains(t, err, "others may write to")
	require.NoError(t, os.Chmod(base, 0o755))
	require.NoError(t, os.Chown(base, 65534, 65534))
	_, err = pglocal.Start(t.Context(), pglocal.Options{Folder: base})
	require.ErrorContains(t, err, "root keeps a database only in a folder of its own")
	_, err = pglocal.Start(t.Context(), pglocal.Options{Folder: filepath.Join(base, "below")})
	require.ErrorContains(t, err, "root keeps a database only in a folder of its own")
	// A folder that the server's account cannot enter.
	require.NoError(t, os.Chown(base, 0, 0))
	require.NoError(t, os.Chmod(base, 0o700))
	_, err = pglocal.Start(t.Context(), pglocal.Options{Folder: base})
	require.ErrorContains(t, err, "none of the accounts")
	require.ErrorContains(t, err, base)
}
