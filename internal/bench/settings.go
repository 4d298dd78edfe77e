package bench

import (
	"context"
	"fmt"
	"runtime"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Settings are what a rate means nothing without.
type Settings struct {
	PostgreSQL        string `json:"postgresql" db:"postgresql"`
	SynchronousCommit string `json:"synchronous_commit" db:"synchronous_commit"`
	Fsync             string `json:"fsync" db:"fsync"`
	FullPageWrites    string `json:"full_page_writes" db:"full_page_writes"`
	WALLevel          string `json:"wal_level" db:"wal_level"`
	SharedBuffers     string `json:"shared_buffers" db:"shared_buffers"`
	MaxWALSize        string `json:"max_wal_size" db:"max_wal_size"`
	PoolConnections   int32  `json:"pool_connections" db:"-"` // at most
	GOMAXPROCS        int    `json:"gomaxprocs" db:"-"`
	CPUs              int    `json:"cpus" db:"-"` // of this machine, not the server's
	Go                string `json:"go" db:"-"`
	Platform          string `json:"platform" db:"-"`
}

// settingsSQL reads no table.
const settingsSQL = `SELECT current_setting('server_version') AS postgresql,
	current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
	current_setting('full_page_writes') AS full_page_writes, current_setting('wal_level') AS wal_level,
	current_setting('shared_buffers') AS shared_buffers, current_setting('max_wal_size') AS max_wal_size`

// ReadSettings asks the server and this process.
func ReadSettings(ctx context.Context, pool *pgxpool.Pool) (Settings, error) {
	rows, err := pool.Query(ctx, settingsSQL)
	if err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Settings])
	if err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	s.PoolConnections, s.GOMAXPROCS, s.CPUs = pool.Config().MaxConns, runtime.GOMAXPROCS(0), runtime.NumCPU()
	s.Go, s.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	return s, nil
}
