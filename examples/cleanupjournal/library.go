package cleanupjournal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// patience is how often a cleanup is tried: files that should be gone are worth more than the usual ten times.
const patience = 100

// Library is a folder of albums, each a folder below it, and a table that says which there are.
type Library struct {
	Folder string
	Pool   *pgxpool.Pool
}

// Prepare makes the table. Its name is the example's own: the program drops it at the end, in whatever database it was given.
func (l *Library) Prepare(ctx context.Context) error {
	_, err := l.Pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS cleanupjournal_albums (name text PRIMARY KEY)`)
	return err
}

// Has says whether there is such an album.
func (l *Library) Has(ctx context.Context, album string) (there bool, err error) {
	err = l.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM cleanupjournal_albums WHERE name = $1)`, album).Scan(&there)
	return there, err
}

// Add makes an album of some files, by name. The row comes last: an album that can be seen is whole.
func (l *Library) Add(ctx context.Context, album string, files map[string][]byte) error {
	if !filepath.IsLocal(album) || filepath.Base(album) != album {
		return fmt.Errorf("cleanupjournal: %q is no name for an album", album)
	}
	for name, content := range files {
		path := filepath.Join(l.Folder, album, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	_, err := l.Pool.Exec(ctx, `INSERT INTO cleanupjournal_albums (name) VALUES ($1) ON CONFLICT DO NOTHING`, album)
	return err
}

// Remove removes an album: its row now, its files by a job. The job is written first, in the same transaction: if it cannot be
// written, the album stays and the error says why; once the transaction has committed, the files will go, whoever dies.
func (l *Library) Remove(ctx context.Context, client *engine.Client, album string) (tree.ID, error) {
	cleanup, err := l.plan(album)
	if err != nil {
		return 0, fmt.Errorf("cleanupjournal: plan the removal of %s: %w", album, err)
	}
	var receipt engine.Receipt
	err = pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
		var err error
		if receipt, err = client.InTx(tx).Insert(ctx, tree.New(cleanup, tree.MaxAttempts(patience))); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM cleanupjournal_albums WHERE name = $1`, album)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cleanupjournal: remove %s: %w", album, err)
	}
	client.Wake(tree.DefaultQueue) // the insert could not: nobody saw the job before the commit
	return receipt.ID, nil
}
