package pglocal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// downloads is the folder of the binaries that were fetched, one folder a version.
func downloads(base string) string { return filepath.Join(base, "binaries") }

// publishedVersions are the releases that can be fetched, by major version.
func publishedVersions() map[int]embedded.PostgresVersion {
	return map[int]embedded.PostgresVersion{
		14: embedded.V14,
		15: embedded.V15,
		16: embedded.V16,
		17: embedded.V17,
		18: embedded.V18,
	}
}

// fetching is how the folders start in which binaries are being unpacked.
const fetching = ".fetching-"

// removeBroken removes what downloads left that were killed: what is older than any
// download takes.
func removeBroken(folder string) {
	leftovers, _ := filepath.Glob(filepath.Join(folder, fetching+"*")) // the only error is a bad pattern
	for _, path := range leftovers {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(path) // tried again at the next download
		}
	}
}

// fetchFrom returns a fetchFunc that gets binaries from a Maven repository. Empty
// means Maven Central.
func fetchFrom(repository string) fetchFunc {
	return func(ctx context.Context, major int, folder string) (string, error) {
		version, ok := publishedVersions()[major]
		if !ok {
			return "", fmt.Errorf("no binaries of PostgreSQL %d are published", major)
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", err
		}
		removeBroken(folder)
		work, err := os.MkdirTemp(folder, fetching)
		if err != nil {
			return "", err
		}
		done := make(chan error, 1)
		go func() {
			// The download cannot be cancelled. A caller that gives up leaves it running
			// to its end, in a folder that is then removed.
			err := unpack(repository, version, work, filepath.Join(folder, string(version)))
			done <- errors.Join(err, os.RemoveAll(work))
		}()
		select {
		case err := <-done:
			return filepath.Join(folder, string(version), "bin"), err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// unpack fetches a version into work and moves it to target once it is whole.
//
// The library only knows how to fetch, unpack, initialise and start in one go, and
// its server would listen on TCP with a well-known password. A locale that does not
// exist ends it after the unpacking, so its error says nothing: whether the server
// program runs is what counts.
func unpack(repository string, version embedded.PostgresVersion, work, target string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	unpacked := filepath.Join(work, "unpacked")
	config := embedded.DefaultConfig().
		Version(version).
		Port(uint32(port)).
		CachePath(filepath.Join(work, "archive")).
		RuntimePath(filepath.Join(work, "runtime")).
		DataPath(filepath.Join(work, "data")).
		BinariesPath(unpacked).
		Locale("none: unpack only").
		Logger(nil)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	server := embedded.NewDatabase(config)
	fetchErr := server.Start()
	if fetchErr == nil {
		return errors.Join(errors.New("the server started in a locale that does not exist"), server.Stop())
	}
	bin, ok := serverFolder(filepath.Join(unpacked, "bin"))
	if !ok {
		return fetchErr
	}
	if _, err := inspect(context.Background(), bin); err != nil {
		return errors.Join(err, fetchErr)
	}
	// The account that the server runs as must be able to read what root fetched.
	if err := os.Chmod(unpacked, 0o755); err != nil {
		return err
	}
	err = os.Rename(unpacked, target)
	if _, ok := serverFolder(filepath.Join(target, "bin")); ok {
		return nil // here, or by a program that fetched it at the same time
	}
	return err
}

// freePort returns a port that nothing on the loopback address listens on just now.
func freePort() (int, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
