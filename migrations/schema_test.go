package migrations_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/migrations"
)

func TestUnusableSchemaNamesAreRefusedEverywhere(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                      "empty",
		"a\x00b":                "control character",
		"a\nb":                  "control character",
		"a\xffb":                "UTF-8",
		"pg_jobs":               "prefix pg_",
		strings.Repeat("x", 64): "64 bytes",
		strings.Repeat("木", 22): "66 bytes",
	} {
		require.ErrorIs(t, migrations.ValidSchema(name), migrations.ErrSchemaName)
		require.ErrorContains(t, migrations.ValidSchema(name), want)
		_, err := migrations.New("", name)
		require.ErrorIs(t, err, migrations.ErrSchemaName)
		require.ErrorIs(t, migrations.Check(t.Context(), nil, name), migrations.ErrSchemaName)
		require.ErrorIs(t, migrations.Print(&bytes.Buffer{}, name), migrations.ErrSchemaName)
	}
	for _, name := range []string{"coppice", "PG_jobs", "p", strings.Repeat("x", 63), " "} {
		require.NoError(t, migrations.ValidSchema(name))
	}
}

func TestABadURLIsRefused(t *testing.T) {
	t.Parallel()
	_, err := migrations.New("postgres://host:port/", migrations.DefaultSchema)
	require.ErrorContains(t, err, "parse the database URL")
}

func TestHashIsStable(t *testing.T) {
	t.Parallel()
	first := migrations.Hash()
	assert.Len(t, first, 64)
	assert.Equal(t, first, migrations.Hash())
}

func TestPrintReportsAWriterThatFails(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	require.ErrorIs(t, migrations.Print(failing{full}, migrations.DefaultSchema), full)
}

// failing is a writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
