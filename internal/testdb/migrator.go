package testdb

import (
	"context"

	"github.com/coppicehq/coppice/migrations"
)

// Schema is the schema that the tables of Coppice are in, in databases made by New.
const Schema = migrations.DefaultSchema

// Migrator fills the template that databases are cloned from.
type Migrator interface {
	// Hash names what Migrate makes. Two migrators with the same hash share a template.
	Hash() (string, error)
	// Migrate fills the empty database that url leads to, as its owner, who is no
	// superuser. It is called once for each hash and server, and leaves no connection
	// open.
	Migrate(ctx context.Context, url string) error
}

// Empty is the migrator of databases with nothing in them.
type Empty struct{}

// Hash returns a fixed name.
func (Empty) Hash() (string, error) { return "empty", nil }

// Migrate does nothing.
func (Empty) Migrate(context.Context, string) error { return nil }

// tables makes the tables of Coppice.
type tables struct{}

// Hash names the migrations of this build.
func (tables) Hash() (string, error) { return migrations.Hash(), nil }

// Migrate makes the schema as well.
func (tables) Migrate(ctx context.Context, url string) error {
	m, err := migrations.New(url, Schema)
	if err != nil {
		return err
	}
	_, err = m.Up(ctx)
	return err
}
