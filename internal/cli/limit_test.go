package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimitsOfKeysAndQueuesFromTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Contains(t, w.run("limit", "list").err, "there are no such limits")
	require.Equal(t, "[]\n", w.run("limit", "list", "--json").ok())
	require.Equal(t, "key mail limited\n", w.run("limit", "set", "mail", "--rate", "5", "--burst", "20", "--reason", "their new terms").ok())
	require.Equal(t, "key api limited\n", w.run("limit", "set", "api", "--max", "10").ok())
	got := lines(w.run("limit", "list").ok())
	require.Regexp(t, `^KEY +RUNNING +RATE +TOKENS +PARKED$`, got[0])
	require.Regexp(t, `^api +0 / 10 +- +- +0$`, got[1])
	require.Regexp(t, `^mail +0 +5/s, burst 20 +20.0 +0$`, got[2])
	rows := readJSON[[]limitJSON](w.run("limit", "list", "--json", "--after", "api"))
	require.Equal(t, []limitJSON{{Key: "mail", Rate: 5, Burst: 20, Tokens: 20}}, rows)
	w.run("limit", "set", "api").fails(1, "a limit needs a number of running jobs or a rate; to lift one, delete it")
	w.run("limit", "set", "api", "--rate", "0.0000001").fails(1, "outside one a day")
	w.run("limit", "list", "--limit", "0").fails(2, "--limit")
	require.Equal(t, "key api is limited no more\n", w.run("limit", "delete", "api").ok())
	require.Equal(t, "key api was not limited\n", w.run("limit", "delete", "api").ok())

	require.Equal(t, "queue mail runs 20 jobs at a time\n", w.run("queue", "limit", "mail", "--max", "20").ok())
	require.Equal(t, "queue mail runs 20 jobs at a time, as before\n", w.run("queue", "limit", "mail", "--max", "20").ok())
	require.Contains(t, w.run("queue", "list").ok(), "0 / 20")
	require.Equal(t, "queue mail runs any number of jobs\n", w.run("queue", "limit", "mail", "--none").ok())
	w.run("queue", "limit", "mail").fails(2, "--max N, above 0, or --none")
	w.run("queue", "limit", "mail", "--max", "-3").fails(2, "--max")
	w.run("queue", "limit", "mail", "--max", "2000000").fails(1, "outside 0 to 1000000")
}
