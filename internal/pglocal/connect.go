package pglocal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// maxSocketPath is how long the path of a unix socket may be, in bytes, with some to
// spare: macOS has 103 and Linux 107.
const maxSocketPath = 100

// connectTimeout bounds one attempt to connect to a server on this machine.
const connectTimeout = 5 * time.Second

// usesSocket reports whether the cluster's server listens on a unix socket.
func (f folder) usesSocket() bool {
	socket := filepath.Join(f.run(), fmt.Sprintf(".s.PGSQL.%d", localPort))
	return runtime.GOOS != "windows" && len(socket) <= maxSocketPath
}

// newAddress is where a new server of the cluster is to listen.
func (f folder) newAddress() (address, error) {
	if f.usesSocket() {
		return address{socket: f.run(), port: localPort}, nil
	}
	port, err := freePort()
	return address{port: port}, err
}

// connURL returns the URL of a database for pgx and for psql.
func (f folder) connURL(a address, database string) (string, error) {
	u := url.URL{Scheme: "postgres", Path: "/" + database}
	if a.socket != "" {
		u.User = url.User(superuser)
		query := url.Values{"host": {a.socket}, "port": {strconv.Itoa(a.port)}}.Encode()
		// Neither pgx nor libpq reads a plus as a space. What was a plus is encoded by now.
		u.RawQuery = strings.ReplaceAll(query, "+", "%20")
		return u.String(), nil
	}
	password, err := f.readPassword()
	if err != nil {
		return "", err
	}
	u.User = url.UserPassword(superuser, password)
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(a.port))
	u.RawQuery = "sslmode=disable"
	return u.String(), nil
}

// errStranger reports that another server answers where the cluster's should.
var errStranger = errors.New("another server answers at its address")

// connect opens a connection to a database of the cluster and returns the server's
// version. It makes sure that the server is the cluster's: a port may have gone to
// another one.
func (f folder) connect(ctx context.Context, a address, database string) (*pgx.Conn, string, error) {
	target, err := f.connURL(a, database)
	if err != nil {
		return nil, "", err
	}
	config, err := pgx.ParseConfig(target)
	if err != nil {
		return nil, "", fmt.Errorf("pglocal: %w", err)
	}
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams["application_name"] = "coppice start"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, "", err
	}
	var data, version string
	err = conn.QueryRow(ctx, "SELECT current_setting('data_directory'), current_setting('server_version')").Scan(&data, &version)
	if err == nil && !sameFile(data, f.data()) {
		err = errStranger
	}
	if err != nil {
		_ = conn.Close(ctx) // the first error says more
		return nil, "", err
	}
	version, _, _ = strings.Cut(version, " ") // "15.18 (Debian 15.18-0)"
	return conn, version, nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// ping returns the server's version once it accepts connections and has the
// database.
func (f folder) ping(ctx context.Context, a address) (string, error) {
	conn, version, err := f.connect(ctx, a, superuser)
	if hasCode(err, "3D000") { // no such database: the cluster is new, or it was dropped
		if err = f.createDatabase(ctx, a); err != nil {
			return "", err
		}
		conn, version, err = f.connect(ctx, a, superuser)
	}
	if err != nil {
		return "", err
	}
	return version, conn.Close(ctx)
}

func (f folder) createDatabase(ctx context.Context, a address) error {
	conn, _, err := f.connect(ctx, a, "postgres")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+superuser); err != nil {
		return fmt.Errorf("pglocal: create the database: %w", err)
	}
	return nil
}

func hasCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}

// notYet reports whether an error of ping may go away by waiting: the server does
// not listen yet, or it is starting up or shutting down.
func notYet(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code == "57P03"
	}
	return !errors.Is(err, errStranger)
}
