package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testdb"
)

func TestADatabaseThatCannotBeReachedHasItsOwnExitCode(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env[databaseEnv] = "postgres://ann:secret@127.0.0.1:1/none?connect_timeout=1"
	got := s.run("tree", "list")
	got.fails(exitDatabase, "coppice: failed to connect")
	require.Contains(t, got.err, "check --database-url or COPPICE_DATABASE_URL")
	require.NotContains(t, got.err, "secret")
	require.Len(t, lines(got.err), 1, "errors are one line")

	s.env[databaseEnv] = "postgres://ann:secret@127.0.0.1:no/none"
	got = s.run("tree", "list")
	got.fails(exitDatabase, "give it as in postgres://")
	require.NotContains(t, got.err, "secret")
}

func TestTheFlagWinsOverTheEnvironment(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s := newShell(t)
	s.run("tree", "list", "--database-url", db.URL).ok()
	s.on(db).run("tree", "list", "--database-url", "postgres://127.0.0.1:1/none").fails(exitDatabase, "failed to connect")
	s.env[schemaEnv] = "elsewhere"
	s.run("tree", "list").fails(exitDatabase, "elsewhere")
	s.run("tree", "list", "--schema", db.Schema).ok()
}

func TestASchemaThatIsNotThisProgramsIsRefusedWithTheNextStep(t *testing.T) {
	t.Parallel()
	s := newShell(t).on(testdb.NewWith(t, testdb.Empty{}))
	for _, words := range [][]string{{"tree", "list"}, {"tree", "show", "1"}, {"job", "show", "1"}, {"queue", "list"}, {"doctor"}} {
		s.run(words...).fails(exitDatabase, "run `coppice migrate up`")
	}
	s.run("tree", "list", "--schema", "pg_mine").fails(exitDatabase, "invalid schema name")

	w := newWorld(t)
	w.exec(`INSERT INTO {s}.goose_db_version (version_id, is_applied) VALUES (999, true)`)
	w.run("tree", "list").fails(exitDatabase, "upgrade the program")
}
