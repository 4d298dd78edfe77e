package pglocal

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// superuser is the name of the role and of the database that [Server.URL] leads to.
const superuser = "coppice"

// localPort is the port of servers on a unix socket, where it only names the file.
const localPort = 5432

// address is where a server listens: on a unix socket in a folder, or, with no
// folder, on a port of the loopback address.
type address struct {
	socket string
	port   int
}

const mib = 1 << 20

// sharedBuffers is 256 MB, less on machines where that were more than an eighth of
// the memory, and never under 16 MB. Memory of zero means it is not known.
func sharedBuffers(memory uint64) uint64 {
	const most, least = 256 * mib, 16 * mib
	if memory == 0 {
		return most / 2
	}
	return max(least, min(most, memory/8/mib*mib))
}

// settings is the text of postgresql.conf. It is written at every start; what a
// person sets with ALTER SYSTEM goes before it.
func settings(f folder, a address, unsafe bool, memory uint64) string {
	var b strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, `'`, `''`)
	set := func(name, value string) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, escape.Replace(value))
	}
	b.WriteString("# Written at every start. Change settings with ALTER SYSTEM instead.\n")
	if a.socket != "" {
		set("listen_addresses", "")
		set("unix_socket_directories", socketList(a.socket))
		set("unix_socket_permissions", "0700")
	} else {
		set("listen_addresses", "127.0.0.1")
		set("unix_socket_directories", "")
	}
	set("port", strconv.Itoa(a.port))
	set("hba_file", f.hba())
	set("password_encryption", "scram-sha-256")

	set("shared_buffers", strconv.FormatUint(sharedBuffers(memory)/mib, 10)+"MB")
	set("max_wal_size", "2GB")
	set("timezone", "UTC")
	set("lc_messages", "C") // errors are matched by their code, and logs read by people

	set("logging_collector", "off") // the log is the server's standard error
	set("log_destination", "stderr")
	set("log_line_prefix", "%m [%p] db=%d,user=%u,app=%a ")
	set("log_timezone", "UTC")
	set("log_min_messages", "warning") // deadlocks are errors, so they are in it
	set("log_checkpoints", "off")      // a laptop's log stays readable

	if unsafe {
		set("max_connections", "300") // many tests at once, each with a pool
		set("fsync", "off")
		set("full_page_writes", "off")
		set("synchronous_commit", "off")
	} else {
		set("max_connections", "100")
	}
	return b.String()
}

// socketList quotes a folder for a setting that is a list of folders.
func socketList(folder string) string {
	return `"` + strings.ReplaceAll(folder, `"`, `""`) + `"`
}

// authentication is the text of pg_hba.conf. Whoever gets to the unix socket may
// come in: only the owner of its folder, and root, do.
func authentication() string {
	return "# Written at every start.\n" +
		"local all all trust\n" +
		"host all all 127.0.0.1/32 scram-sha-256\n"
}

// writeSettings writes both files, readable by the account that runs the server.
func writeSettings(f folder, a address, unsafe bool) error {
	for path, text := range map[string]string{
		f.config(): settings(f, a, unsafe, totalMemory()),
		f.hba():    authentication(),
	} {
		if err := writeFile(path, text, 0o644); err != nil {
			return fmt.Errorf("pglocal: write the server's settings: %w", err)
		}
	}
	return nil
}

// writeFile replaces a file at once, so that nobody reads half of it.
func writeFile(path, text string, mode os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err == nil {
		err = os.Chmod(file.Name(), mode)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the first error says more
	}
	return err
}
