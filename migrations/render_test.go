package migrations

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseFillsInTheSchema(t *testing.T) {
	t.Parallel()
	const text = `-- +goose Up
-- +goose ENVSUB ON
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".t (id bigint DEFAULT nextval('"${COPPICE_SCHEMA:-coppice}".s'));
-- +goose StatementBegin
CREATE FUNCTION "${COPPICE_SCHEMA:-coppice}".f() RETURNS int LANGUAGE sql AS $$$$ SELECT 1; $$$$;
-- +goose StatementEnd
-- +goose ENVSUB OFF
SELECT '$HOME';
-- +goose Down
SELECT 1;
`
	parsed, err := parse(text, `a"b'c$$`)
	require.NoError(t, err)
	assert.Equal(t, `CREATE TABLE "a""b'c$$".t (id bigint DEFAULT nextval('"a""b''c$$".s'));
-- +goose StatementBegin
CREATE FUNCTION "a""b'c$$".f() RETURNS int LANGUAGE sql AS $$ SELECT 1; $$;
-- +goose StatementEnd
SELECT '$HOME';`, parsed.up)
	assert.Equal(t, "SELECT 1;", parsed.down)
	assert.False(t, parsed.noTransaction)
	assert.Equal(t, 2, strings.Count(parsed.gooseFile(), "StatementBegin"), "one block a section")
}

func TestParseRefusesALoneDollarSign(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"AS $fn$ BEGIN", "SELECT $1", "SELECT ${HOME}"} {
		_, err := parse("-- +goose Up\n-- +goose ENVSUB ON\n"+body+"\n", "s")
		require.ErrorContains(t, err, "written twice", body)
	}
}

func TestAFileOutsideATransactionKeepsItsStatementsApart(t *testing.T) {
	t.Parallel()
	const text = "-- +goose NO TRANSACTION\n-- +goose Up\nSELECT 1;\nSELECT 2;\n-- +goose Down\nSELECT 3;\n"
	parsed, err := parse(text, "s")
	require.NoError(t, err)
	assert.True(t, parsed.noTransaction)
	assert.Equal(t, text, parsed.gooseFile())
}

func TestEveryMigrationFollowsTheRules(t *testing.T) {
	t.Parallel()
	ownSchema := regexp.MustCompile(`(?i)\b(CREATE|DROP)\s+SCHEMA\b`)
	for i, s := range sources() {
		assert.EqualValues(t, i+1, s.version, "%s: versions are counted from 1 without gaps", s.name)
		parsed, err := parse(s.text, "some schema")
		require.NoError(t, err, s.name)
		assert.NotEmpty(t, parsed.up, s.name)
		assert.NotEmpty(t, parsed.down, s.name)
		assert.NotRegexp(t, ownSchema, s.text, "%s: the version table is in the schema", s.name)
		assert.NotRegexp(t, `\bcoppice"?\.`, parsed.up+parsed.down, "%s: the schema has another name here", s.name)
	}
}
