//go:build unix

package pglocal

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// published serves an archive as Maven does.
func published(t *testing.T, archive []byte) string {
	t.Helper()
	var jar bytes.Buffer
	w := zip.NewWriter(&jar)
	file, err := w.Create("postgres.txz")
	require.NoError(t, err)
	_, err = file.Write(archive)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	sum := sha256.Sum256(jar.Bytes())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := jar.Bytes()
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			answer = []byte(hex.EncodeToString(sum[:]))
		}
		_, _ = w.Write(answer)
	}))
	t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return server.URL
}

func TestBinariesThatAreNotInstalledAreFetched(t *testing.T) {
	t.Parallel()
	// Programs that say they are PostgreSQL 18.3, and an initdb that fails.
	archive, err := os.ReadFile("testdata/binaries.txz")
	require.NoError(t, err)
	base := t.TempDir()
	o := Options{
		Folder: base, places: &places{globs: []string{filepath.Join(downloads(base), "*", "bin")}},
		fetch: fetchFrom(published(t, archive)),
	}
	target, err := choose(t.Context(), o)
	require.NoError(t, err)
	got, err := target.obtain(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, binaries{folder: filepath.Join(downloads(base), "18.3.0", "bin"), version: "18.3", major: 18}, got)

	o.fetch = func(context.Context, int, string) (string, error) { t.Error("fetched again"); return "", nil }
	again, err := target.obtain(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, got.folder, again.folder)
	left, err := os.ReadDir(downloads(base))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing is left of the download")
}

func TestADownloadThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	for repository, want := range map[string]string{
		closed.URL: "unable to connect to " + closed.URL,
		empty.URL:  "no version found matching 18.3.0",
		published(t, []byte("no archive at all")): "unable to extract postgres archive",
	} {
		folder := t.TempDir()
		_, err := fetchFrom(repository)(t.Context(), 18, folder)
		require.ErrorContains(t, err, want)
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestADownloadCanBeGivenUp(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := fetchFrom(server.URL)(ctx, 18, t.TempDir())
	require.ErrorIs(t, err, context.Canceled)
}
